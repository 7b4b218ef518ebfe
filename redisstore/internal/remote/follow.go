package remote

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doorward/doorward"
	"github.com/redis/rueidis"
)

// A Follower is told of what is forgotten on any node.
type Follower interface {
	// Subscribed says that from now on it is told of everything. What it believed before may be
	// wrong.
	Subscribed(now time.Time)
	// Heard says that it was told of everything until now.
	Heard(now time.Time)
	// Forget, ForgetFunc and ForgetAll say that a key, those that are meant, or all of them, were
	// forgotten in a rule.
	Forget(rule string, k doorward.Key)
	ForgetFunc(rule string, meant func(doorward.Key) bool, now time.Time)
	ForgetAll(rule string)
}

// A notice is what nodes tell each other: that a key or a rule was forgotten, or, without either,
// a heartbeat.
type notice struct {
	what byte
	rule string
	key  doorward.Key
	name string // of a key that whoever forgot it does not know
	beat uint64
}

// What was forgotten of a rule.
const (
	everyKey = iota
	oneKey
	oneName
)

// Notices are sealed with a key from the secret: nobody else can read a key out of one, or write
// one.
func sealer(c Config) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, c.Secret, nil, "doorward redis notice 1 "+c.Guard, 32)
	if err != nil {
		panic(err) // never: the length is right
	}
	block, _ := aes.NewCipher(key) // never fails: nor is this one wrong
	aead, _ := cipher.NewGCMWithRandomNonce(block)
	return aead
}

func (n notice) seal(a cipher.AEAD) string {
	b := binary.BigEndian.AppendUint64(nil, n.beat)
	b = append(b, n.what)
	b, _ = n.key.AppendBinary(b) // never fails
	b = append(b, n.rule...)
	if n.what == oneName {
		b = append(append(b, 0), n.name...) // no rule's name has a zero
	}
	return string(a.Seal(nil, nil, b, nil))
}

func open(a cipher.AEAD, text string) (n notice, err error) {
	b, err := a.Open(nil, nil, []byte(text), nil)
	if err != nil {
		return n, err
	}
	const keyLen = 18
	if len(b) < 9+keyLen {
		return n, errors.New("redisstore: notice is too short")
	}
	n.beat, n.what = binary.BigEndian.Uint64(b), b[8]
	n.rule, n.name, _ = strings.Cut(string(b[9+keyLen:]), "\x00")
	return n, n.key.UnmarshalBinary(b[9 : 9+keyLen])
}

func (s *Store) channel() string { return s.config.Prefix + s.config.Guard + ":forgotten" }

// publish tells all who follow.
func (s *Store) publish(ctx context.Context, n notice) error {
	client, _, err := s.connect()
	if err != nil {
		return err
	}
	cmd := client.B().Publish().Channel(s.channel()).Message(n.seal(s.seal)).Build()
	if err := client.Do(ctx, cmd).Error(); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Beat is how often a Store that follows makes sure that it is told.
const Beat = 250 * time.Millisecond

// Follow tells f what is forgotten, here or on any other node, until ctx ends or the server cannot
// be listened to any more; that is the error. It sends a heartbeat every Beat, and says Heard
// when one comes back: what was sent before it, by the same way, came before it. (In a
// cluster two ways may differ, by as long as its nodes need to tell each other.)
func (s *Store) Follow(ctx context.Context, f Follower) error {
	client, _, err := s.connect()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var id [8]byte
	rand.Read(id[:]) // never fails
	mine := binary.BigEndian.Uint64(id[:])
	subscribed := make(chan struct{}, 1)
	sent := make(chan error, 1)
	since := time.Now() // a heartbeat says when it was sent by its number
	go func() {
		tick := time.NewTicker(Beat)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				sent <- nil
				return
			case <-subscribed:
			case <-tick.C:
			}
			// What is lost is not heard, so errors need no care.
			s.publish(ctx, notice{beat: mine ^ uint64(time.Since(since))})
		}
	}()
	hook := rueidis.WithOnSubscriptionHook(ctx, func(p rueidis.PubSubSubscription) {
		if p.Kind == "subscribe" { // again after each reconnect
			f.Subscribed(time.Now())
			select {
			case subscribed <- struct{}{}:
			default:
			}
		}
	})
	err = client.Receive(hook, client.B().Subscribe().Channel(s.channel()).Build(), func(m rueidis.PubSubMessage) {
		n, err := open(s.seal, m.Message)
		switch {
		case err != nil: // not from one of us
		case n.rule == "":
			if age := time.Since(since) - time.Duration(n.beat^mine); age >= 0 && age < time.Minute && n.beat != 0 {
				f.Heard(time.Now().Add(-age))
			}
		case n.what == oneKey:
			f.Forget(n.rule, n.key)
		case n.what == oneName:
			if v, ok := s.rules.Load(n.rule); ok { // else nothing was charged from here
				r := v.(*rule)
				f.ForgetFunc(n.rule, func(k doorward.Key) bool { return r.name(k) == n.name }, time.Now())
			}
		default:
			f.ForgetAll(n.rule)
		}
	})
	cancel()
	<-sent
	if err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Unfollow tells the server that nobody follows any more, once Follow has ended: the connection
// stays. If that fails, the server sends what nobody reads.
func (s *Store) Unfollow(ctx context.Context) {
	if client, _, err := s.connect(); err == nil {
		ctx, cancel := context.WithTimeout(ctx, Beat)
		defer cancel()
		client.Do(ctx, client.B().Unsubscribe().Channel(s.channel()).Build())
	}
}
