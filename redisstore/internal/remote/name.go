package remote

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/script"
)

// A Name is what a key is called in the store: half of an HMAC-SHA256 of it, with a key that
// belongs to the guard, the rule and the family of networks.
type Name [16]byte

// A rule is a guard.Rule as the store keeps it.
type rule struct {
	of     *guard.Rule
	text   string // for the functions
	tables [2]table
	counts *counts
}

// counts are what this process was told of the overflow entries of a rule.
type counts struct{ charged, refused atomic.Uint64 }

func (c *counts) count(allowed bool) {
	if allowed {
		c.charged.Add(1)
	} else {
		c.refused.Add(1)
	}
}

// A table is where a rule keeps one family of networks, or all else: in partitions.
type table struct {
	bases  []string   // what the keys of a partition begin with
	shared [][]string // the keys of a partition that are not of one key alone, but for the order
	macs   *sync.Pool
}

// partitions returns how many a rule has: one that charges everyone has one key, and all keys of
// a throttle share what they spend.
func (s *Store) partitions(r *guard.Rule) int {
	if r.Throttle != nil || r.Per == guard.Everyone {
		return 1
	}
	return s.config.Partitions
}

// rule returns r as the store keeps it. A guard that was reloaded has its rules in another
// place.
func (s *Store) rule(r *guard.Rule) *rule {
	counts := &counts{}
	if v, ok := s.rules.Load(r.Name); ok {
		known := v.(*rule)
		if known.of == r {
			return known
		}
		counts = known.counts
	}
	n := s.partitions(r)
	made := &rule{of: r, text: string(script.AppendRule(nil, r, n)), counts: counts}
	for f := range made.tables {
		t := &made.tables[f]
		title := fmt.Sprintf("%s:%s:%s%s", s.config.Guard, r.Name, family(r, f), kind(r))
		for p := range n {
			base := s.config.Prefix + "{" + title + strconv.Itoa(n) + "." + strconv.Itoa(p) + "}"
			shared := []string{base + "+"}
			if r.Throttle != nil {
				shared = append(shared, base+"g", base+"l")
			}
			t.bases, t.shared = append(t.bases, base), append(t.shared, shared)
		}
		mac := hmac.New(sha256.New, s.config.Secret)
		fmt.Fprintf(mac, "doorward redis 1\x00%s", title)
		key := mac.Sum(nil)
		t.macs = &sync.Pool{New: func() any { return hmac.New(sha256.New, key) }}
	}
	s.rules.Store(r.Name, made)
	return made
}

// kind tells policies apart whose entries do not look alike.
func kind(r *guard.Rule) string {
	switch {
	case r.Lockout != nil:
		return "l"
	case r.Throttle != nil:
		return "t"
	}
	return "w"
}

// family says which of the two tables of a network rule it is. All callers spend a throttle's
// ceiling, so it has one.
func family(r *guard.Rule, f int) string {
	if r.Per != guard.Network || r.Throttle != nil {
		return ""
	}
	return [2]string{"4", "6"}[f]
}

// table returns where the rule keeps k.
func (r *rule) table(k doorward.Key) *table {
	p := k.Prefix()
	switch {
	case r.of.Per != guard.Network || r.of.Throttle != nil:
	case p.IsValid() && p.Addr().Is6(), !p.IsValid() && r.of.V4 < 0:
		return &r.tables[1]
	}
	return &r.tables[0]
}

// A place is where one key of a rule is kept.
type place struct {
	base, key string // what the keys of its partition begin with, and its own
	partition int    // of bases
	shared    []string
	name      Name
	check     uint64 // what its tickets are told by
	loopback  bool
}

func (r *rule) place(k doorward.Key) (at place) {
	t := r.table(k)
	mac := t.macs.Get().(hash.Hash)
	var buf [sha256.Size]byte
	mac.Reset()
	b, _ := k.AppendBinary(buf[:0]) // never fails
	mac.Write(b)
	sum := mac.Sum(buf[:0])
	t.macs.Put(mac)
	at.name = Name(sum[:16])
	at.check = binary.LittleEndian.Uint64(sum[16:24]) >> 1
	partition := int(binary.LittleEndian.Uint64(sum[24:]) % uint64(len(t.bases)))
	base := t.bases[partition]
	at.base, at.shared, at.partition = base, t.shared[partition], partition
	if t == &r.tables[1] {
		at.partition += len(r.tables[0].bases)
	}
	switch at.loopback = k.IsLoopback(); {
	case !at.loopback:
		at.key = base + string(sum[:16])
	case k.Prefix().Addr().Is6():
		at.key = base + "6"
	default:
		at.key = base + "4"
	}
	return at
}

// keys returns the keys of a call for one place of a cluster. The functions are told the first, and find
// the others themselves; but while a slot moves they may be on two servers, and then a server that is told
// of all of them does nothing.
func (at *place) keys() []string {
	return append([]string{at.key, at.base + "o"}, at.shared...)
}

// Name returns what a key is called when entries are listed: its partition and the end of its key
// there, in hexadecimal. Loopback addresses have one for each partition.
func (s *Store) Name(of *guard.Rule, k doorward.Key) string { return s.rule(of).name(k) }

func (r *rule) name(k doorward.Key) string {
	at := r.place(k)
	return name(at.partition, at.key[len(at.base):])
}

func name(partition int, member string) string {
	return hex.EncodeToString(append(binary.BigEndian.AppendUint16(nil, uint16(partition)), member...))
}

// named returns where what has a name is kept, if a key of r may have it.
func (r *rule) named(name string) (at place, ok bool) {
	b, err := hex.DecodeString(name)
	if err != nil || len(b) < 3 {
		return at, false
	}
	member := string(b[2:])
	at.loopback = member == "4" || member == "6"
	at.partition = int(binary.BigEndian.Uint16(b))
	if at.partition >= len(r.bases()) || !at.loopback && len(member) != len(at.name) {
		return at, false
	}
	table, i := &r.tables[0], at.partition
	if i >= len(table.bases) {
		table, i = &r.tables[1], i-len(table.bases)
	}
	at.base, at.shared = table.bases[i], table.shared[i]
	at.key = at.base + member
	return at, true
}
