package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/httpguard"
	"github.com/doorward/doorward/redisstore"
)

// A login whose attempts all nodes count together. While the server is away, each node goes on by
// its own counts.
func Example() {
	secret, err := os.ReadFile("/etc/doorward/store.secret") // the same on all nodes
	if err != nil {
		log.Fatal(err)
	}
	client, err := redisstore.Dial(redisstore.Options{
		Addresses: []string{"redis.internal:6379"}, PasswordFile: "/etc/doorward/redis.password", Secret: secret,
	})
	if err != nil {
		log.Fatal(err) // it is there, and must not be used
	}
	defer client.Close()
	store, err := client.Store("login", redisstore.Local)
	if err != nil {
		log.Fatal(err)
	}
	config := guard.Login
	config.Store = store
	login, err := guard.New(config)
	if err != nil {
		log.Fatal(err)
	}
	gate, err := httpguard.New(httpguard.Options{
		Guard: login, Subject: func(r *http.Request) (string, error) { return r.PostFormValue("user"), nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("POST /login", gate.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "lovelace" {
			http.Error(w, "wrong password", http.StatusUnauthorized)
			return
		}
		httpguard.FromRequest(r).Succeeded()
		fmt.Fprintln(w, "welcome")
	})))
	log.Fatal(http.ListenAndServe("127.0.0.1:8080", nil))
}

// A server that nobody can reach is no error. Of 20 guesses five are tried here, those that
// one process's own counts admit.
func ExampleClient_Store() {
	client, err := redisstore.Dial(redisstore.Options{Addresses: []string{"127.0.0.1:1"}, Secret: []byte("at least 16 bytes")})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	store, err := client.Store("pairing", redisstore.Local)
	if err != nil {
		log.Fatal(err)
	}
	config := guard.Pairing
	config.Store = store
	pairing, err := guard.New(config)
	if err != nil {
		log.Fatal(err)
	}
	ctx, tried := context.Background(), 0
	for range 20 {
		who := guard.Request{Addr: netip.MustParseAddr("192.0.2.7"), How: clientip.Peer}
		permit, err := pairing.AttemptContext(ctx, who, time.Now())
		if err != nil {
			log.Fatal(err) // Closed would answer so
		}
		if permit.Allowed {
			tried++
			permit.SettleContext(ctx, doorward.Failed, time.Now())
		}
	}
	fmt.Println("up:", client.Health().Up)
	fmt.Println("tried:", tried)
	fmt.Println("decided here:", store.Alone().Local)
	// Output:
	// up: false
	// tried: 5
	// decided here: 20
}
