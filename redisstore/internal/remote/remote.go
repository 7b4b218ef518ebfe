// Package remote keeps the counts of a guard in Redis or Valkey: one server, one with Sentinels, or
// a cluster. It promises that an attempt is judged and charged in one step of the server, by the
// server's clock, that live entries are never dropped for others, and that names and addresses
// leave the process only as HMACs.
//
// All rules of an attempt are judged and charged together where one server has them. In a cluster
// each partition is on a server of its own: rules are charged at the same time, and what was
// charged is taken back if one refuses. Until then others may be refused for it; nobody is
// admitted.
//
// It gives up every promise about time: a call takes as long as its context lets it. Deadlines,
// and what is done while there is no server, are for whoever wraps it.
package remote

import (
	"context"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/script"
	"github.com/redis/rueidis"
)

// Config says what a Store is of. All fields are required.
type Config struct {
	Guard      string // the guard whose counts these are, the same on all nodes
	Prefix     string // what all keys begin with
	Secret     []byte // what names and addresses are keyed with, the same on all nodes
	Partitions int    // of each rule, the same on all nodes
}

// A Store keeps the counts of one guard. It is safe for concurrent use, and a guard.Store.
type Store struct {
	config    Config
	connect   Connect
	functions script.Library
	seal      cipher.AEAD                   // of notices
	clock     func([]guard.Charge) []string // arguments in the place of the server's clock, in tests
	loading   sync.Mutex
	loads     atomic.Uint64 // how often the library was loaded
	rules     sync.Map      // by name, each a *rule
	voiding   chan struct{} // one for each goroutine that takes back
	skew      float64       // by how many microseconds clocks of a cluster may differ
}

// skew is by how much the clocks of a cluster's servers may differ. What a pair counted first is
// dated by another clock than the network's: it is given back only if it is later than what the
// network surely counts by more than that.
const skew = 100 * time.Millisecond

// Connect returns the client of a server, and whether that is a cluster, or why there is none yet.
type Connect func() (client rueidis.Client, cluster bool, err error)

// New returns the store of a guard. It talks to the server only when it is asked to.
func New(connect Connect, c Config) *Store {
	return &Store{
		config: c, connect: connect, functions: script.New(script.ServerClock), seal: sealer(c),
		voiding: make(chan struct{}, 64), skew: float64(skew / time.Microsecond),
	}
}

// Flags of a charge, as the library numbers them.
const (
	mayRefuse = 1
	knownFlag = 2
	given     = 4
	pair      = 8
	apart     = 16
	giveBack  = 4 // of settle
	overflow  = 32
	shared    = 128
)

// A ticket is the name of the reservation, seven bytes, with issued and perhaps overBit below,
// and the check of its place, whose top bit is left to whoever wraps the store.
const (
	issued  = 0xd0
	overBit = 0x01
)

func newTicket(at *place) doorward.Ticket {
	return doorward.Ticket{A: rand.Uint64()&^0xff | issued, B: at.check}
}

// names reports whether t may name a reservation of the place.
func (at *place) names(t doorward.Ticket) bool {
	return t.B == at.check && t.A&0xff&^overBit == issued
}

// argument is what the functions are told of a charge.
func argument(flags byte, t doorward.Ticket, r *rule, at *place) string {
	if at.loopback {
		flags |= shared
	}
	b := make([]byte, 0, 80)
	b = append(b, flags)
	b = binary.BigEndian.AppendUint64(b, t.A)[:8]
	return string(append(b, r.text...))
}

// Reserve is described in guard.Store.
func (s *Store) Reserve(ctx context.Context, charges []guard.Charge) error {
	if len(charges) == 0 {
		return nil
	}
	_, cluster, err := s.connect()
	if err != nil {
		return err
	}
	places := make([]place, len(charges))
	args := make([]string, len(charges), len(charges)+1)
	for i := range charges {
		c := &charges[i]
		r := s.rule(c.Rule)
		places[i] = r.place(c.Key)
		c.Ticket = newTicket(&places[i])
		args[i] = argument(reserveFlags(c), c.Ticket, r, &places[i])
	}
	if cluster {
		return s.reserveEach(ctx, charges, places, args)
	}
	reply, err := s.call(ctx, s.functions.Reserve, places, args, charges)
	if err != nil {
		return err
	}
	return s.read(reply, charges)
}

func reserveFlags(c *guard.Charge) (flags byte) {
	for _, f := range []struct {
		set bool
		bit byte
	}{
		{c.MayRefuse, mayRefuse}, {c.Known, knownFlag}, {c.Given, given},
		{c.Rule.Per == guard.Pair && c.Rule.Lockout != nil, pair}, {c.Apart, apart},
	} {
		if f.set {
			flags |= f.bit
		}
	}
	return flags
}

// judgement is how long the answer to one charge is.
const judgement = 14

// read fills in what reserve answered.
func (s *Store) read(reply string, charges []guard.Charge) error {
	if len(reply) != judgement*len(charges) {
		return fmt.Errorf("redisstore: reply must be %d bytes, got %d", judgement*len(charges), len(reply))
	}
	refused := false
	for i := range charges {
		c := &charges[i]
		c.Decision = decision(reply[judgement*i:])
		if c.Decision.Overflow {
			c.Ticket.A |= overBit
		}
		refused = refused || refuses(c)
	}
	for i := range charges {
		c := &charges[i]
		if c.Decision.Overflow && !(refused && c.Decision.Allowed) {
			s.rule(c.Rule).counts.count(c.Decision.Allowed)
		}
		if refused || !c.Decision.Allowed {
			c.Ticket = doorward.Ticket{}
		}
	}
	return nil
}

// refuses reports whether c refuses the attempt.
func refuses(c *guard.Charge) bool {
	return c.MayRefuse && !c.Decision.Allowed && !(c.Known && c.Decision.Overflow)
}

func decision(b string) doorward.Decision {
	return doorward.Decision{
		Allowed: b[0] == 0, Reason: doorward.Reason(b[0]), Overflow: b[1] != 0,
		RetryAfter: time.Duration(float(b[2:])) * time.Microsecond, Remaining: int(uint32At(b[10:])),
	}
}

func float(b string) float64   { return math.Float64frombits(binary.LittleEndian.Uint64([]byte(b[:8]))) }
func uint32At(b string) uint32 { return binary.LittleEndian.Uint32([]byte(b[:4])) }

// reserveEach reserves each charge where it is kept, all at the same time.
func (s *Store) reserveEach(ctx context.Context, charges []guard.Charge, places []place, args []string) error {
	replies, err := s.each(ctx, s.functions.Reserve, places, args, charges)
	refused, left := false, false
	var charged []int
	for i := range charges {
		if replies[i] == "" {
			continue
		}
		if e := s.read(replies[i], charges[i:i+1]); e != nil {
			err = errors.Join(err, e)
			continue
		}
		if charges[i].Decision.Allowed {
			charged = append(charged, i)
		}
		refused = refused || refuses(&charges[i])
	}
	var late []int
	for i := range charges {
		c := &charges[i]
		if left && !c.Apart && c.Decision.Allowed && reserveFlags(c)&pair != 0 {
			late = append(late, i)
		}
		left = left || c.Given && (!c.Decision.Allowed || c.Decision.Overflow)
	}
	if err == nil && !refused {
		if err = s.mark(ctx, charges, places, late); err == nil {
			return nil
		}
	}
	tell := s.takeBack(charges, places, charged)
	if err != nil {
		tell(context.WithoutCancel(ctx), true)
		return err
	}
	for i := range charges {
		charges[i].Ticket = doorward.Ticket{}
	}
	return tell(ctx, false)
}

// mark marks reservations of pairs apart: only now it is known that some rule did not count the
// attempt.
func (s *Store) mark(ctx context.Context, charges []guard.Charge, places []place, which []int) error {
	if len(which) == 0 {
		return nil
	}
	at, args := make([]place, len(which)), make([]string, len(which))
	for n, i := range which {
		at[n] = places[i]
		args[n] = argument(settleFlags(&charges[i], 0), charges[i].Ticket, s.rule(charges[i].Rule), &places[i])
	}
	_, err := s.each(ctx, s.functions.Mark, at, args, charges)
	return err
}

// takeBack returns a function that voids reservations: at once, or later, for as long as
// that takes at most.
func (s *Store) takeBack(charges []guard.Charge, places []place, which []int) func(ctx context.Context, later bool) error {
	at, args := make([]place, len(which)), make([]string, len(which))
	for n, i := range which {
		at[n] = places[i]
		args[n] = argument(settleFlags(&charges[i], doorward.Void), charges[i].Ticket, s.rule(charges[i].Rule), &places[i])
	}
	return func(ctx context.Context, later bool) error {
		if len(at) == 0 {
			return nil
		}
		if !later {
			_, err := s.settleEach(ctx, at, args, "", charges)
			return err
		}
		// Else what could not be decided becomes a failure of someone who may have been right.
		select {
		case s.voiding <- struct{}{}:
			go func() {
				defer func() { <-s.voiding }()
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				s.settleEach(ctx, at, args, "", nil)
			}()
		default:
		}
		return nil
	}
}

// Settle is described in guard.Store.
func (s *Store) Settle(ctx context.Context, charges []guard.Charge) error {
	_, cluster, err := s.connect()
	if err != nil {
		return err
	}
	var which []int
	places := make([]place, len(charges))
	for i := range charges {
		c := &charges[i]
		c.Cleared, c.Lockout = doorward.Cleared{}, 0
		places[i] = s.rule(c.Rule).place(c.Key)
		if places[i].names(c.Ticket) || c.GiveBack {
			which = append(which, i)
		}
	}
	if !cluster {
		_, err := s.settle(ctx, charges, places, which, "", false)
		return err
	}
	var first, then []int
	for _, i := range which {
		if charges[i].GiveBack {
			then = append(then, i)
		} else {
			first = append(first, i)
		}
	}
	cleared, err := s.settle(ctx, charges, places, first, "", true)
	if err != nil {
		return err
	}
	_, err = s.settle(ctx, charges, places, then, cleared, true)
	return err
}

// settlement is how long the answer to one settled charge is.
const settlement = 20

// settle settles some charges, by one call or each by its own, and returns what pairs cleared.
func (s *Store) settle(ctx context.Context, charges []guard.Charge, places []place, which []int, cleared string, each bool) (string, error) {
	if len(which) == 0 {
		return "", nil
	}
	at, args := make([]place, len(which)), make([]string, len(which))
	for n, i := range which {
		c := &charges[i]
		at[n] = places[i]
		args[n] = argument(settleFlags(c, c.Outcome), c.Ticket, s.rule(c.Rule), &places[i])
	}
	var replies []string
	if each {
		var err error
		if replies, err = s.settleEach(ctx, at, args, cleared, charges); err != nil {
			return "", err
		}
	} else {
		reply, err := s.call(ctx, s.functions.Settle, at, append([]string{cleared}, args...), charges)
		if err != nil {
			return "", err
		}
		if len(reply) != settlement*len(which) {
			return "", fmt.Errorf("redisstore: reply must be %d bytes, got %d", settlement*len(which), len(reply))
		}
		for n := range which {
			replies = append(replies, reply[settlement*n:settlement*(n+1)])
		}
	}
	var pairs []byte
	for n, i := range which {
		c, reply := &charges[i], replies[n]
		if len(reply) != settlement {
			return "", fmt.Errorf("redisstore: reply must be %d bytes, got %d", settlement, len(reply))
		}
		count, first := uint32At(reply), float(reply[4:])
		c.Lockout = time.Duration(float(reply[12:])) * time.Microsecond
		if count == 0 {
			continue
		}
		c.Cleared = doorward.Cleared{N: int(count), First: beforeAll}
		if first >= 0 {
			c.Cleared.First = time.UnixMicro(int64(first))
		}
		if settleFlags(c, 0)&pair != 0 {
			if each && first >= 0 {
				first -= s.skew
			}
			for _, v := range []float64{float64(count), first} {
				pairs = binary.LittleEndian.AppendUint64(pairs, math.Float64bits(v))
			}
		}
	}
	return string(pairs), nil
}

// beforeAll is when failures that may be counted nowhere else were counted, as package lockout
// has it.
var beforeAll = time.Time{}.Add(math.MinInt64)

func settleFlags(c *guard.Charge, o doorward.Outcome) byte {
	if o > doorward.Void || o == doorward.Succeeded && c.Rule.Window != nil {
		o = doorward.Failed // no outcome is a failure, and a window keeps every charge but a void one
	}
	flags := byte(o)
	if c.GiveBack {
		flags |= giveBack
	}
	if c.Rule.Per == guard.Pair && c.Rule.Lockout != nil {
		flags |= pair
	}
	if c.Apart {
		flags |= apart
	}
	if c.Ticket.A&overBit != 0 {
		flags |= overflow
	}
	return flags
}

func (s *Store) settleEach(ctx context.Context, places []place, args []string, cleared string, charges []guard.Charge) ([]string, error) {
	cmds := make([][]string, len(places))
	for i := range places {
		cmds[i] = []string{cleared, args[i]}
	}
	return s.pipeline(ctx, s.functions.Settle, places, cmds, charges)
}

func (s *Store) each(ctx context.Context, function string, places []place, args []string, charges []guard.Charge) ([]string, error) {
	cmds := make([][]string, len(places))
	for i := range places {
		cmds[i] = []string{args[i]}
	}
	return s.pipeline(ctx, function, places, cmds, charges)
}

// call calls a function with all places.
func (s *Store) call(ctx context.Context, function string, places []place, args []string, charges []guard.Charge) (string, error) {
	keys := make([]string, len(places))
	for i := range places {
		keys[i] = places[i].key
	}
	reply, err := s.do(ctx, function, keys, s.stamp(args, charges))
	if err != nil {
		return "", err
	}
	text, err := reply.ToString()
	if err != nil {
		return "", fmt.Errorf("redisstore: %s: %w", function, err)
	}
	return text, nil
}

// do calls a function, once more if the server did not have the library.
func (s *Store) do(ctx context.Context, function string, keys, args []string) (reply rueidis.RedisMessage, err error) {
	client, _, err := s.connect()
	if err != nil {
		return reply, err
	}
	known := s.loads.Load()
	reply, err = client.Do(ctx, build(client, function, keys, args)).ToMessage()
	if isUnknown(err) {
		if err = s.load(ctx, client, known); err == nil {
			reply, err = client.Do(ctx, build(client, function, keys, args)).ToMessage()
		}
	}
	if err != nil {
		return reply, fmt.Errorf("redisstore: %w", err)
	}
	return reply, nil
}

// pipeline calls a function once for each place, all at the same time. Replies of those that
// failed are empty, and the first error is returned.
func (s *Store) pipeline(ctx context.Context, function string, places []place, args [][]string, charges []guard.Charge) ([]string, error) {
	replies := make([]string, len(places))
	client, _, err := s.connect()
	if err != nil {
		return replies, err
	}
	todo := make([]int, len(places))
	for i := range places {
		todo[i] = i
	}
	for try := 0; ; try++ {
		cmds := make(rueidis.Commands, len(todo))
		for n, i := range todo {
			cmds[n] = build(client, function, places[i].keys(), s.stamp(args[i], charges))
		}
		var first error
		var again []int
		known := s.loads.Load()
		for n, r := range client.DoMulti(ctx, cmds...) {
			m, err := r.ToMessage()
			switch {
			case err == nil && m.IsInt64():
				replies[todo[n]] = "+"
			case err == nil:
				replies[todo[n]], _ = m.ToString()
			case isUnknown(err) && try == 0:
				again = append(again, todo[n])
			case first == nil:
				first = fmt.Errorf("redisstore: %w", err)
			}
		}
		if first != nil || len(again) == 0 {
			return replies, first
		}
		if err := s.load(ctx, client, known); err != nil {
			return replies, fmt.Errorf("redisstore: %w", err)
		}
		todo = again
	}
}

func (s *Store) stamp(args []string, charges []guard.Charge) []string {
	if s.clock == nil {
		return args
	}
	return append(args[:len(args):len(args)], s.clock(charges)...)
}

func build(client rueidis.Client, function string, keys, args []string) rueidis.Completed {
	return client.B().Fcall().Function(function).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// isUnknown reports whether a server has no such function: it is new, or they were flushed.
func isUnknown(err error) bool {
	e, ok := rueidis.IsRedisErr(err)
	return ok && strings.Contains(e.Error(), "Function not found")
}

// load gives the library to every server that takes it, which replicas do not. It is replicated
// from there. Of many callers who found at once that it is missing, knowing so many loads, one does.
func (s *Store) load(ctx context.Context, client rueidis.Client, known uint64) error {
	s.loading.Lock()
	defer s.loading.Unlock()
	if s.loads.Load() != known {
		return nil
	}
	var first error
	loaded := false
	for _, node := range client.Nodes() {
		err := node.Do(ctx, node.B().FunctionLoad().Replace().FunctionCode(s.functions.Text).Build()).Error()
		if err == nil {
			loaded = true
		} else if first == nil {
			first = err
		}
	}
	if loaded {
		s.loads.Add(1)
		return nil // what a server that failed was to do fails on its own
	}
	return first
}
