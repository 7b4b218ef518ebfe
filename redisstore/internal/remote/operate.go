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
func (s *Store) Look(ctx context.Context, of *guard.Rule, k doorward.Key, now time.Time) (doorward.Entry, bool, doorward.Decision, error) {
	r := s.rule(of)
	e, tracked, d, err := s.look(ctx, r, r.place(k), now)
	e.Key = k
	return e, tracked, d, err
}

// LookNamed is Look by the name of a key.
func (s *Store) LookNamed(ctx context.Context, of *guard.Rule, name string, now time.Time) (e doorward.Entry, tracked bool, d doorward.Decision, err error) {
	r := s.rule(of)
	at, ok := r.named(name)
	if !ok {
		return e, false, d, nil
	}
	e, tracked, d, err = s.look(ctx, r, at, now)
	e.Name = name
	return e, tracked, d, err
}

func (s *Store) look(ctx context.Context, r *rule, at place, now time.Time) (e doorward.Entry, tracked bool, d doorward.Decision, err error) {
	args := []string{argument(0, doorward.Ticket{}, r, &at)}
	reply, err := s.call(ctx, s.functions.Look, []place{at}, args, []guard.Charge{{Now: now}})
	if err != nil {
		return e, false, d, err
	}
	if len(reply) != finding {
		return e, false, d, fmt.Errorf("redisstore: reply must be %d bytes, got %d", finding, len(reply))
	}
	return entry(reply[judgement+1:], now), reply[judgement] != 0, decision(reply), nil
}

// Unlock forgets a key, what it counted, its lockout and its reservations, and tells all who
// follow. After an error it may be forgotten or not.
func (s *Store) Unlock(ctx context.Context, of *guard.Rule, k doorward.Key) error {
	r := s.rule(of)
	return s.unlock(ctx, r, r.place(k), notice{what: oneKey, rule: of.Name, key: k})
}

// UnlockNamed is Unlock by the name of a key.
func (s *Store) UnlockNamed(ctx context.Context, of *guard.Rule, name string) error {
	r := s.rule(of)
	at, ok := r.named(name)
	if !ok {
		return nil
	}
	return s.unlock(ctx, r, at, notice{what: oneName, rule: of.Name, name: name})
}

func (s *Store) unlock(ctx context.Context, r *rule, at place, n notice) error {
	if _, err := s.each(ctx, s.functions.Unlock, []place{at}, []string{argument(0, doorward.Ticket{}, r, &at)}, []guard.Charge{{Now: time.Time{}}}); err != nil {
		return err
	}
	return s.publish(ctx, n)
}

// clearing is how many entries are forgotten at a time.
const clearing = 500

// Clear forgets everything that a rule counted, overflow entries and ceilings too, and tells all
// who follow. It is not one moment: attempts that are made meanwhile may count or not.
func (s *Store) Clear(ctx context.Context, of *guard.Rule) error {
	for _, base := range s.rule(of).bases() {
		for more := true; more; {
			reply, err := s.do(ctx, s.functions.Clear, []string{base + "o"}, []string{strconv.Itoa(clearing)})
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

// AppendEntries appends to dst a page of the live entries of a rule, by their names, and returns
// where to go on. It looks at as many places of one partition as it is told, at most guard.MaxPage, in the
// order in which they may be forgotten, by one call. An entry that moves in that order meanwhile may
// be missing or there twice.
func (s *Store) AppendEntries(ctx context.Context, dst []doorward.Entry, of *guard.Rule, c guard.Cursor, places int, now time.Time) ([]doorward.Entry, guard.Cursor, error) {
	r := s.rule(of)
	bases := r.bases()
	partition, from := c>>32, uint32(c)
	if partition >= guard.Cursor(len(bases)) {
		return dst, 0, nil
	}
	places = max(1, min(places, guard.MaxPage))
	args := []string{argument(0, doorward.Ticket{}, r, &place{}), strconv.FormatUint(uint64(from), 10), strconv.Itoa(places)}
	reply, err := s.do(ctx, s.functions.Page, []string{bases[partition] + "o"}, s.stamp(args, []guard.Charge{{Now: now}}))
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
		member := text[:len(text)-description]
		e := entry(text[len(member):], now)
		if e.Overflow = member == "+"; !e.Overflow {
			e.Name = name(int(partition), member)
		}
		dst = append(dst, e)
	}
	next, err := items[0].AsInt64()
	switch {
	case err != nil:
		return dst, c, fmt.Errorf("redisstore: page: %w", err)
	case next > 0:
		return dst, partition<<32 | guard.Cursor(uint32(next)), nil
	case partition+1 < guard.Cursor(len(bases)):
		return dst, (partition + 1) << 32, nil
	}
	return dst, 0, nil
}
