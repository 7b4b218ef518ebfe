package device

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"

	"github.com/doorward/doorward"
)

// A token is base64url without padding of
//
//	"d1" | id (16) | issued (8) | signed (8) | MAC (32)
//
// with both times in seconds since 1970, big-endian. The MAC is HMAC-SHA-256 over the
// subject's key in binary (18 bytes) and all that precedes it. The guard is in the
// MAC's key. All fields have one length, so none can be read as part of another. 66
// bytes make 88 characters without a spare bit, so a token has one spelling.
const (
	version = "d1"
	idLen   = 16
	bodyLen = len(version) + idLen + 8 + 8
	rawLen  = bodyLen + sha256.Size
	textLen = rawLen / 3 * 4
)

// claims is what a token says.
type claims struct {
	id     [idLen]byte // random
	issued int64       // the device was first known
	signed int64       // this token was signed
}

func (c claims) body() (b [bodyLen]byte) {
	n := copy(b[:], version)
	n += copy(b[n:], c.id[:])
	binary.BigEndian.PutUint64(b[n:], uint64(c.issued))
	binary.BigEndian.PutUint64(b[n+8:], uint64(c.signed))
	return b
}

func claimsOf(b [bodyLen]byte) (c claims) {
	n := len(version)
	n += copy(c.id[:], b[n:])
	c.issued = int64(binary.BigEndian.Uint64(b[n:]))
	c.signed = int64(binary.BigEndian.Uint64(b[n+8:]))
	return c
}

// macKey is an HMAC-SHA-256 key as the two blocks that RFC 2104 begins its hashes
// with. crypto/hmac does the same and allocates.
type macKey struct{ inner, outer [sha256.BlockSize]byte }

// newMACKey derives the key of one guard, so that guards may share a secret, and so
// may other uses of it.
func newMACKey(secret []byte, guard string) (k macKey, err error) {
	derived, err := hkdf.Key(sha256.New, secret, nil, "doorward device 1\x00"+guard, sha256.Size)
	if err != nil {
		return macKey{}, err
	}
	copy(k.inner[:], derived)
	copy(k.outer[:], derived)
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return k, nil
}

func (k *macKey) sum(subject doorward.Key, body [bodyLen]byte) [sha256.Size]byte {
	var in [sha256.BlockSize + 18 + bodyLen]byte
	msg, _ := subject.AppendBinary(append(in[:0], k.inner[:]...)) // never fails
	hash := sha256.Sum256(append(msg, body[:]...))
	var out [sha256.BlockSize + sha256.Size]byte
	return sha256.Sum256(append(append(out[:0], k.outer[:]...), hash[:]...))
}

// seal writes and signs a token.
func (k *macKey) seal(c claims, subject doorward.Key) string {
	body := c.body()
	mac := k.sum(subject, body)
	var raw [rawLen]byte
	copy(raw[:], body[:])
	copy(raw[bodyLen:], mac[:])
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// open reads a token that one of the keys signed for the subject, and says which.
func open(keys []macKey, token string, subject doorward.Key) (c claims, key int, ok bool) {
	if len(token) != textLen {
		return claims{}, 0, false
	}
	var text [textLen]byte
	var raw [rawLen]byte
	copy(text[:], token)
	// The decoder skips line breaks. A token with one comes out short.
	n, err := base64.RawURLEncoding.Decode(raw[:], text[:])
	if err != nil || n != rawLen || string(raw[:len(version)]) != version {
		return claims{}, 0, false
	}
	body := [bodyLen]byte(raw[:bodyLen])
	for i := range keys {
		mac := keys[i].sum(subject, body)
		if subtle.ConstantTimeCompare(mac[:], raw[bodyLen:]) == 1 {
			return claimsOf(body), i, true
		}
	}
	return claims{}, 0, false
}
