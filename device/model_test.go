package device_test

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/big"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/device"
)

// model verifies tokens slowly and obviously: crypto/hmac, strict base64 that is
// also written back, and time as one big number of nanoseconds.
type model struct{ device.Config }

func (m model) mac(key []byte, subject doorward.Key, body []byte) []byte {
	derived := must(hkdf.Key(sha256.New, key, nil, "doorward device 1\x00"+m.Guard, 32))
	h := hmac.New(sha256.New, derived)
	h.Write(must(subject.MarshalBinary()))
	h.Write(body)
	return h.Sum(nil)
}

// forge writes the token that the holder of key would.
func (m model) forge(key []byte, subject doorward.Key, version string, id [16]byte, issued, signed int64) string {
	b := append([]byte(version), id[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(issued))
	b = binary.BigEndian.AppendUint64(b, uint64(signed))
	return base64.RawURLEncoding.EncodeToString(append(b, m.mac(key, subject, b)...))
}

func (m model) verify(token string, subject doorward.Key, now time.Time) (device.Device, bool) {
	strict := base64.RawURLEncoding.Strict()
	b, err := strict.DecodeString(token)
	if err != nil || strict.EncodeToString(b) != token || len(b) != 2+16+8+8+32 || string(b[:2]) != "d1" {
		return device.Device{}, false
	}
	body, mac := b[:34], b[34:]
	signer := -1
	for i, key := range m.Keys {
		if hmac.Equal(mac, m.mac(key, subject, body)) {
			signer = i
		}
	}
	if signer < 0 || subject == (doorward.Key{}) {
		return device.Device{}, false
	}
	issued := int64(binary.BigEndian.Uint64(b[18:]))
	ttl := m.TTL
	if ttl == 0 {
		ttl = 90 * 24 * time.Hour
	}
	signed := nanoseconds(int64(binary.BigEndian.Uint64(b[26:])), 0)
	at := nanoseconds(now.Unix(), now.Nanosecond())
	after := func(d time.Duration) *big.Int { return new(big.Int).Add(signed, big.NewInt(int64(d))) }
	if at.Cmp(after(ttl)) >= 0 || at.Cmp(after(-5*time.Minute)) < 0 {
		return device.Device{}, false
	}
	half := (ttl + time.Second) / 2 / time.Second * time.Second // a whole second
	root := doorward.KeyFromPair(doorward.KeyForEveryone(),
		doorward.KeyFromPair(doorward.KeyFromName("doorward device"), doorward.KeyFromName(m.Guard)))
	return device.Device{
		ID:     doorward.KeyFromPair(root, doorward.KeyFromName(string(b[2:18]))),
		Issued: time.Unix(issued, 0).UTC(),
		Renew:  signer > 0 || at.Cmp(after(half)) >= 0,
	}, true
}

func nanoseconds(sec int64, nsec int) *big.Int {
	n := new(big.Int).Mul(big.NewInt(sec), big.NewInt(1e9))
	return n.Add(n, big.NewInt(int64(nsec)))
}
