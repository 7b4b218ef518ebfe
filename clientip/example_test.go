package clientip_test

import (
	"fmt"
	"net/netip"

	"github.com/doorward/doorward/clientip"
)

func Example() {
	r, err := clientip.New(clientip.Config{
		Header:  "X-Forwarded-For",
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	if err != nil {
		panic(err)
	}
	// In a handler: r.Resolve(req.RemoteAddr, req.Header.Values(r.Header())).
	show := func(remoteAddr string, values ...string) {
		addr, how := r.Resolve(remoteAddr, values)
		fmt.Println(addr, how)
	}
	show("10.0.0.2:443", "6.6.6.6, 192.0.2.7, 10.0.0.3") // the caller wrote 6.6.6.6
	show("192.0.2.7:4711", "6.6.6.6")                    // no proxy of ours
	show("10.0.0.2:443", "6.6.6.6, unknown")             // the proxy does not say
	// Output:
	// 192.0.2.7 header
	// 192.0.2.7 peer
	// invalid IP unknown
}
