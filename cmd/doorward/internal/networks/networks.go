// Package networks lists networks that are exempt or blocked until some time.
//
// It promises that a list is a value: what changes it returns another one, so that a
// change that cannot be applied leaves no trace. A network is listed once for each guard
// and once for all of them; listed anew, it is as it was said last. It gives up on telling
// the guards: whoever keeps the list does.
package networks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Max is how many networks there may be, and Longest for how long.
const (
	Max     = 10_000
	Longest = 366 * 24 * time.Hour
)

// Network is one of them.
type Network struct {
	Prefix netip.Prefix  `json:"network"`
	Block  bool          `json:"block"` // else it is exempt
	Guard  string        `json:"guard"` // "" is all
	Until  time.Time     `json:"until"`
	For    time.Duration `json:"for"` // as it was asked for
	Actor  string        `json:"actor"`
	Reason string        `json:"reason"`
}

// ID names what n is about: the network and the guard.
func (n Network) ID() string {
	sum := sha256.Sum256([]byte(n.Prefix.String() + " " + n.Guard))
	return hex.EncodeToString(sum[:8])
}

// Action is the word for what n does.
func (n Network) Action() string {
	if n.Block {
		return "block"
	}
	return "exempt"
}

// List is the networks in the order that they end. The zero List has none.
type List struct{ all []Network }

// All returns them. The caller must not change them.
func (l List) All() []Network { return l.all }

// With returns a list with n as well, or instead of what was said of it before.
func (l List) With(n Network) (List, error) {
	next := slices.Clone(l.all)
	next = slices.DeleteFunc(next, func(o Network) bool { return o.Prefix == n.Prefix && o.Guard == n.Guard })
	if len(next) >= Max {
		return l, fmt.Errorf("networks: there must be at most %d for a time: take some off, or put them into the configuration", Max)
	}
	at, _ := slices.BinarySearchFunc(next, n, func(o, n Network) int {
		if o.Until.After(n.Until) {
			return 1
		}
		return -1
	})
	return List{slices.Insert(next, at, n)}, nil
}

// Without returns a list without the network of an ID, and that network.
func (l List) Without(id string) (List, Network, bool) {
	at := slices.IndexFunc(l.all, func(n Network) bool { return n.ID() == id })
	if at < 0 {
		return l, Network{}, false
	}
	return List{slices.Delete(slices.Clone(l.all), at, at+1)}, l.all[at], true
}

// At returns the list as it is at some time, and what ended.
func (l List) At(now time.Time) (List, []Network) {
	n := 0
	for n < len(l.all) && !l.all[n].Until.After(now) {
		n++
	}
	return List{l.all[n:]}, l.all[:n]
}

// Of returns what holds for one guard.
func (l List) Of(guard string) (exempt, blocked []netip.Prefix) {
	for _, n := range l.all {
		switch {
		case n.Guard != "" && n.Guard != guard:
		case n.Block:
			blocked = append(blocked, n.Prefix)
		default:
			exempt = append(exempt, n.Prefix)
		}
	}
	return exempt, blocked
}

// version is of the form in which a list is written.
const version = 1

type file struct {
	Version  int       `json:"version"`
	Networks []Network `json:"networks"`
}

// MarshalBinary returns what UnmarshalBinary reads.
func (l List) MarshalBinary() ([]byte, error) { return json.Marshal(file{version, l.all}) }

// Parse reads a list that was written. What ended since is left out, and nothing lasts
// longer than it was asked for from now on, even if the clock was set back, or is later.
func Parse(b []byte, now time.Time) (l List, err error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return l, fmt.Errorf("networks: %w", err)
	}
	if f.Version != version {
		return l, fmt.Errorf("networks: version must be %d, got %d", version, f.Version)
	}
	for _, n := range f.Networks {
		if !n.Prefix.IsValid() || n.Prefix != n.Prefix.Masked() || n.For <= 0 || n.For > Longest {
			return List{}, fmt.Errorf("networks: %v for %v is no network for a time", n.Prefix, n.For)
		}
		// As a time from now, which does not change when the clock is set.
		n.Until = now.Add(min(n.Until.Sub(now), n.For))
		if l, err = l.With(n); err != nil {
			return List{}, err
		}
	}
	l, _ = l.At(now)
	return l, nil
}
