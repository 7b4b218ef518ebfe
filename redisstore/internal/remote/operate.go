package remote

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/redis/rueidis"
)

// Stats returns the live figures of a rule, of both families together: what is tracked as the
// server has it, and what this process was told of overflow. How many reservations are in flight is
// not known. It costs one short command for each partition.
func (s *Store) Stats(ctx context.Context, of *guard.Rule) (stats doorward.Stats, err error) {
	client, _, err := s.connect()
	if err != nil {
		return stats, err
	}
	r := s.rule(of)
	var cmds rueidis.Commands
	for _, base := range r.bases() {
		cmds = append(cmds, client.B().Zcard().Key(base+"o").Build())
	}
	for _, reply := range client.DoMulti(ctx, cmds...) {
		n, err := reply.AsInt64()
		if err != nil {
			return stats, fmt.Errorf("redisstore: %w", err)
		}
		stats.Tracked += int(n)
	}
	stats.OverflowCharged, stats.OverflowRefused = r.counts.charged.Load(), r.counts.refused.Load()
	return stats, nil
}

// bases returns what the keys of all partitions of r begin with.
func (r *rule) bases() []string {
	if r.of.Per == guard.Network && r.of.Throttle == nil {
		return append(r.tables[0].bases[:len(r.tables[0].bases):len(r.tables[0].bases)], r.tables[1].bases...)
	}
	return r.tables[0].bases
}

// The lengths of what the functions write of an entry.
const (
	description = 32 // now, count, pending, until when it is locked, and remembered
	finding     = judgement + 1 + description
)

// entry reads a description. The server's clock says what is left, that of now when.
func entry(b string, now time.Time) (e doorward.Entry) {
	at := float(b)
	wall := func(t float64) (w time.Time) {
		if t > at {
			w = now.Round(0).Add(time.Duration(t-at) * time.Microsecond)
		}
		return w
	}
	return doorward.Entry{
		Count: int(uint32At(b[8:])), Pending: int(uint32At(b[12:])),
		LockedUntil: wall(float(b[16:])), ForgottenAt: wall(float(b[24:])),
	}
}

// Look returns what is known of a key, whether it has an entry of its own, and what it would be
// answered. It charges nothing.
func (s *Store) Look(ctx context.Context, of *guard.Rule, k doorward.Key, now time.Time) (e doorward.Entry, tracked bool, d doorward.Decision, err error) {
	r := s.rule(of)
	at := r.place(k)
	args := []string{argument(0, doorward.Ticket{}, r, &at)}
	reply, err := s.call(ctx, s.library.Look, []place{at}, args, []guard.Charge{{Now: now}})
	if err != nil {
		return e, false, d, err
	}
	if len(reply) != finding {
		return e, false, d, fmt.Errorf("redisstore: reply must be %d bytes, got %d", finding, len(reply))
	}
	e = entry(reply[judgement+1:], now)
	e.Key = k
	return e, reply[judgement] != 0, decision(reply), nil
}

// Unlock forgets a key, what it counted, its lockout and its reservations, and tells all who
// follow. After an error it may be forgotten or not.
func (s *Store) Unlock(ctx context.Context, of *guard.Rule, k doorward.Key) error {
	r := s.rule(of)
	at := r.place(k)
	if _, err := s.each(ctx, s.library.Unlock, []place{at}, []string{argument(0, doorward.Ticket{}, r, &at)}, []guard.Charge{{Now: time.Time{}}}); err != nil {
		return err
	}
	return s.publish(ctx, notice{rule: of.Name, key: k, one: true})
}

// clearing is how many entries are forgotten at a time.
const clearing = 500

// Clear forgets everything that a rule counted, overflow entries and ceilings too, and tells all
// who follow. It is not one moment: attempts that are made meanwhile may count or not.
func (s *Store) Clear(ctx context.Context, of *guard.Rule) error {
	for _, base := range s.rule(of).bases() {
		for more := true; more; {
			reply, err := s.do(ctx, s.library.Clear, []string{base + "o"}, []string{strconv.Itoa(clearing)})
			if err != nil {
				return err
			}
			n, err := reply.AsInt64()
			if err != nil {
				return fmt.Errorf("redisstore: %w", err)
			}
			more = n > 0
		}
	}
	return s.publish(ctx, notice{rule: of.Name})
}

// Named is an entry of which only the name of its key is known. Loopback addresses and the
// overflow entry have a byte for a name.
type Named struct {
	Name string
	doorward.Entry
}

// A Cursor is a place in a walk over the entries of a rule. The zero Cursor is the beginning,
// and what the last page returns.
type Cursor struct{ partition, from int }

// MaxPage is how many places a page looks at, at most.
const MaxPage = 256

// AppendEntries appends to dst a page of the live entries of a rule and returns where to go on. It
// looks at as many places of one partition as it is told, in the order in which they may be
// forgotten. An entry that moves in that order meanwhile may be missing or there twice.
func (s *Store) AppendEntries(ctx context.Context, dst []Named, of *guard.Rule, c Cursor, places int, now time.Time) ([]Named, Cursor, error) {
	r := s.rule(of)
	bases := r.bases()
	if c.partition < 0 || c.partition >= len(bases) {
		return dst, Cursor{}, nil
	}
	places = max(1, min(places, MaxPage))
	args := []string{argument(0, doorward.Ticket{}, r, &place{}), strconv.Itoa(c.from), strconv.Itoa(places)}
	reply, err := s.do(ctx, s.library.Page, []string{bases[c.partition] + "o"}, s.stamp(args, []guard.Charge{{Now: now}}))
	if err != nil {
		return dst, c, err
	}
	items, err := reply.ToArray()
	if err != nil || len(items) == 0 {
		return dst, c, fmt.Errorf("redisstore: page: %w", err)
	}
	for _, item := range items[1:] {
		text, err := item.ToString()
		if err != nil || len(text) <= description {
			return dst, c, fmt.Errorf("redisstore: entry of %d bytes: %w", len(text), err)
		}
		name := text[:len(text)-description]
		e := Named{name, entry(text[len(name):], now)}
		e.Overflow = name == "+"
		dst = append(dst, e)
	}
	next, err := items[0].AsInt64()
	switch {
	case err != nil:
		return dst, c, fmt.Errorf("redisstore: page: %w", err)
	case next > 0:
		return dst, Cursor{c.partition, int(next)}, nil
	case c.partition+1 < len(bases):
		return dst, Cursor{partition: c.partition + 1}, nil
	}
	return dst, Cursor{}, nil
}
