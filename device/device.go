// Package device signs and verifies the tokens of known devices: browsers and
// programs from which an attempt on a subject has succeeded before. Such a device
// is taken off the rule that all strangers share for that subject, and gets a budget
// of its own, so that strangers cannot lock a user out.
//
// It promises that only what Issue and Renew returned verifies, in exactly one
// spelling, for one guard and one subject, and before it expires. A token has an
// id, which the device's budget is kept under; renewal keeps the id, so it does not
// refresh the budget. Verifying allocates nothing, and text of the wrong length
// costs no hash.
//
// It gives up three things. It remembers no token, so it cannot revoke one: keys can
// be removed, and an application can turn away devices by Device.Issued, say those
// from before the last change of the password. Whoever knew the password once may
// have gathered tokens, and each is a budget. A token is not encrypted: its bearer
// can read its id and dates, though not the subject, which it does not hold. And
// since a token is for one subject, a device that two people share needs two:
// whoever stores tokens keeps one for each subject.
//
// Do not use it as a session, a second factor, or a sign that somebody is logged in.
// A token says that a secret was known here once. It is worth as many guesses as its
// budget, to a thief too, and nothing else.
package device

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/doorward/doorward"
)

// DefaultTTL is how long a token is valid unless Config says otherwise.
const DefaultTTL = 90 * 24 * time.Hour

const (
	minKey  = 32  // bytes of a key
	maxKeys = 16  // each costs a MAC when a token is forged
	skew    = 300 // seconds that the clock of another signer may be ahead
)

// Config says for which guard tokens are signed, and how. The zero Config is an
// error.
type Config struct {
	// Guard is the name of the guard that tokens are for, 1 to MaxNameLength bytes.
	// Guards with other names do not know them, even if their keys are the same.
	Guard string
	// Keys are secrets of at least 32 random bytes, newest first: 1 to 16. The first
	// signs, all verify. So a new key goes to the front, and the old one may go once
	// its tokens were renewed or have expired.
	Keys [][]byte
	// TTL is how long a token is valid from when it was signed, in whole seconds. 0
	// is DefaultTTL. It counts when a token is read: a shorter one reaches tokens
	// that are already out there, and a longer one brings back some that had expired.
	TTL time.Duration
}

// Signer issues, verifies and renews tokens. It does not change, so any number of
// goroutines may use it. The zero Signer issues nothing and knows no device.
type Signer struct {
	keys  []macKey     // the first signs
	ttl   uint64       // seconds
	guard doorward.Key // what ids of this guard are paired with
}

// Device is a device that showed a valid token.
type Device struct {
	// ID is what its budget is kept under. It is neither a name nor the pair of a
	// subject with anything, so no key that a caller can choose equals it.
	ID doorward.Key
	// Issued is when the device was first known, in whole seconds and UTC. Renewal
	// keeps it.
	Issued time.Time
	// Renew says that the token should be renewed when the attempt has succeeded:
	// half of its life is over, or its key is not the newest.
	Renew bool
}

// New returns the Signer of a Config, or an error that names the field. No error
// shows a key.
func New(c Config) (*Signer, error) {
	if n := len(c.Guard); n < 1 || n > doorward.MaxNameLength {
		return nil, fmt.Errorf("device: Guard must be 1 to %d bytes, got %d", doorward.MaxNameLength, n)
	}
	if n := len(c.Keys); n < 1 || n > maxKeys {
		return nil, fmt.Errorf("device: Keys must be 1 to %d keys, got %d", maxKeys, n)
	}
	for i, k := range c.Keys {
		if err := checkKey(k, c.Keys[:i]); err != nil {
			return nil, fmt.Errorf("device: Keys[%d] %w", i, err)
		}
	}
	if c.TTL == 0 {
		c.TTL = DefaultTTL
	}
	switch {
	case c.TTL < 0:
		return nil, fmt.Errorf("device: TTL must be positive, got %v", c.TTL)
	case c.TTL%time.Second != 0:
		return nil, fmt.Errorf("device: TTL must be whole seconds, got %v", c.TTL)
	}
	s := &Signer{ttl: uint64(c.TTL / time.Second), guard: guardKey(c.Guard)}
	for i, k := range c.Keys {
		m, err := newMACKey(k, c.Guard)
		if err != nil {
			return nil, fmt.Errorf("device: Keys[%d] cannot be used: %w", i, err)
		}
		s.keys = append(s.keys, m)
	}
	return s, nil
}

// TTL returns how long a token is valid from when it was signed.
func (s *Signer) TTL() time.Duration { return time.Duration(s.ttl) * time.Second }

// checkKey checks k and that none of the newer keys is the same.
func checkKey(k []byte, newer [][]byte) error {
	if len(k) < minKey {
		return fmt.Errorf("must be at least %d bytes, got %d", minKey, len(k))
	}
	if len(bytes.Trim(k, "\x00")) == 0 {
		return errors.New("must be random, got zeros only")
	}
	for i := range newer {
		if bytes.Equal(k, newer[i]) {
			return fmt.Errorf("must differ from Keys[%d]", i)
		}
	}
	return nil
}

// Issue returns a token for a device from which an attempt on the subject has just
// succeeded, and its id, which is random. A device whose token verifies is not
// issued another: it has one budget, not two.
//
// The Unknown subject gets no token: "" and the Unknown key are returned.
func (s *Signer) Issue(subject doorward.Key, now time.Time) (token string, id doorward.Key) {
	if len(s.keys) == 0 || subject == (doorward.Key{}) {
		return "", doorward.Key{}
	}
	c := claims{issued: now.Unix(), signed: now.Unix()}
	rand.Read(c.id[:]) // never fails
	return s.keys[0].seal(c, subject), s.deviceKey(c.id)
}

// Verify returns the device that a token names, if this guard issued it for this
// subject, it has not expired, and the clock that it was signed by is not more than
// five minutes ahead of now. A token is valid until, but not at, TTL after the
// beginning of the second that it was signed in.
func (s *Signer) Verify(token string, subject doorward.Key, now time.Time) (Device, bool) {
	c, renew, ok := s.read(token, subject, now)
	if !ok {
		return Device{}, false
	}
	return Device{ID: s.deviceKey(c.id), Issued: time.Unix(c.issued, 0).UTC(), Renew: renew}, true
}

// Renew returns a token for the same device that is signed now and with the newest
// key. It takes a token that verifies, whether or not Device.Renew was set, and is
// for after a success: whoever renews for anyone who shows a token lets a thief keep
// it for ever.
func (s *Signer) Renew(token string, subject doorward.Key, now time.Time) (string, bool) {
	c, _, ok := s.read(token, subject, now)
	if !ok {
		return "", false
	}
	c.signed = now.Unix()
	return s.keys[0].seal(c, subject), true
}

// read returns the claims of a token that verifies, and whether it should be
// renewed.
func (s *Signer) read(token string, subject doorward.Key, now time.Time) (c claims, renew, ok bool) {
	if subject == (doorward.Key{}) {
		return claims{}, false, false
	}
	c, key, ok := open(s.keys, token, subject)
	if !ok {
		return claims{}, false, false
	}
	age, ahead := between(c.signed, now.Unix())
	if age >= s.ttl || ahead > skew {
		return claims{}, false, false
	}
	return c, key > 0 || age >= s.ttl-age, true
}

// between returns how many seconds have passed from then to now, or, if then lies
// ahead, how many are left. One of them is 0. Whole seconds suffice: then and every
// bound are whole, so the fraction of now decides nothing. The difference of any two
// times fits in a uint64.
func between(then, now int64) (age, ahead uint64) {
	if then > now {
		return 0, uint64(then) - uint64(now)
	}
	return uint64(now) - uint64(then), 0
}

// guardKey returns what the ids of a guard are paired with. Everyone is no subject
// and no network, so nobody can choose a pair that equals it.
func guardKey(guard string) doorward.Key {
	return doorward.KeyFromPair(doorward.KeyForEveryone(),
		doorward.KeyFromPair(doorward.KeyFromName("doorward device"), doorward.KeyFromName(guard)))
}

// deviceKey returns the key of an id. It is a pair and not a name: the bearer of a
// token can read the id, so of whatever name the key was made, a subject could be
// called that.
func (s *Signer) deviceKey(id [idLen]byte) doorward.Key {
	return doorward.KeyFromPair(s.guard, doorward.KeyFromName(string(id[:])))
}
