package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/redisstore/internal/breaker"
	"github.com/doorward/doorward/redisstore/internal/front"
	"github.com/doorward/doorward/redisstore/internal/line"
	"github.com/doorward/doorward/redisstore/internal/remote"
)

// A Mode says what decides on attempts while the server is away. Lockouts that this process was
// told of hold in every mode, to their end.
type Mode uint8

const (
	// Local: the same rules, counted in the memory of this process. One key is admitted at most
	// what its policy admits by the server and once more by each process, however often the server
	// comes and goes. It takes the memory of a guard without a Store.
	Local = Mode(front.Local)
	// Closed: nothing is admitted. Attempts are refused as Unavailable.
	Closed = Mode(front.Closed)
	// FailOpen: everything is admitted and nothing counted. It is for doors where a lost login
	// costs more than any number of guesses. An answer of the server that is an error does not open
	// the door: whoever can bring one about would be let in.
	FailOpen = Mode(front.FailOpen)
)

// String returns the word used in configuration and logs: local, closed, open.
func (m Mode) String() string { return front.Mode(m).String() }

// ParseMode reads the word of a mode.
func ParseMode(s string) (Mode, error) {
	m, err := front.ParseMode(s)
	if err != nil {
		return 0, fmt.Errorf("redisstore: %w", err)
	}
	return Mode(m), nil
}

// A Store keeps the counts of one guard: it is a guard.Store, guard.Checker and guard.Lister, safe
// for concurrent use. Give it to guard.Config, and to no other guard; a guard that is reloaded
// keeps it. Attempts are made with AttemptContext and settled with SettleContext; each is decided
// within the Deadline, or three times that if it comes from a known device for which there is no
// room. What it shows to who is on call may take up to ten seconds.
type Store struct {
	whole
	front *front.Store
	far   far
	close context.CancelFunc
	ended sync.WaitGroup
}

// A whole is what a Store is to its guard.
type whole interface {
	guard.Store
	guard.Checker
	guard.Lister
}

// Store returns the store of the guard of a name: 1 to 64 letters, digits and any of "._/-",
// the same on all nodes, and another for each guard. An error says that it is not, or that there
// is no such mode.
func (c *Client) Store(name string, m Mode) (*Store, error) {
	ok := len(name) > 0 && len(name) <= 64
	for _, b := range []byte(name) {
		ok = ok && ('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte("._/-", b) >= 0)
	}
	if !ok {
		return nil, fmt.Errorf(`redisstore: name of a guard must be 1 to 64 letters, digits or any of "._/-", got %q`, name)
	}
	remote := far{remote.New(c.get, remote.Config{
		Guard: name, Prefix: c.options.Prefix, Secret: c.options.Secret, Partitions: c.options.Partitions,
	})}
	f, err := front.New(remote, c.line, front.Config{Mode: front.Mode(m)})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s := &Store{whole: f, front: f, far: remote}
	ctx, cancel := context.WithCancel(c.ctx)
	s.close = cancel
	s.ended.Add(1)
	c.background.Go(func() {
		defer s.ended.Done()
		s.follow(ctx)
	})
	return s, nil
}

// follow listens for what other processes unlock. All of them lose a server at the same moment,
// so they do not come back at the same one.
func (s *Store) follow(ctx context.Context) {
	for ctx.Err() == nil {
		s.far.Follow(ctx, s.front) // until it cannot: then nothing stays hot for more than a second
		rest(ctx, 100*time.Millisecond)
	}
}

// rest waits for d, and by chance for up to as long again.
func rest(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d + rand.N(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// Close ends what the store does in the background: attempts that are under way can be settled, and
// nobody says any more what was unlocked. What it counted stays on the server.
func (s *Store) Close() {
	s.close()
	s.ended.Wait()
	s.far.Unfollow(context.Background())
}

// Mode returns what decides while the server is away.
func (s *Store) Mode() Mode { return Mode(s.front.Mode()) }

// SetMode changes it, for attempts that begin later. An error says that there is no such mode.
func (s *Store) SetMode(m Mode) error {
	if err := s.front.SetMode(front.Mode(m)); err != nil {
		return fmt.Errorf("redisstore: %w", err)
	}
	return nil
}

// Alone is what was decided without the server since the Store was made.
type Alone struct {
	Hot         uint64 // refused because it is known to be locked
	Local       uint64 // decided by this process's own counts
	Settled     uint64 // of these, settled
	Open        uint64 // let in undecided: fail open
	Unavailable uint64 // refused undecided
}

// Alone returns what was decided without the server.
func (s *Store) Alone() Alone { return Alone(s.front.Counts()) }

// Health is what is known of the server.
type Health struct {
	Up    bool      // it is asked
	Since time.Time // of the last change; zero if there was none
	Retry time.Time // when it is tried again, zero if it is up or is being tried
	Downs uint64    // how often it went away
	Err   error     // why a call had no answer, the last time; nil if all had
	ErrAt time.Time
	// Fault is the last answer that was an error, nil if there was none: the server was there and
	// would not decide.
	Fault   error
	FaultAt time.Time
}

// Health returns what is known of the server. A server that is not asked for anything is asked for
// a sign of life once a second, so this is never much older.
func (c *Client) Health() Health {
	h := c.line.Health()
	out := Health{
		Up: h.State == breaker.Up, Since: h.Since, Retry: h.Retry, Downs: h.Downs,
		Err: h.Err, ErrAt: h.ErrAt, Fault: h.Fault, FaultAt: h.FaultAt,
	}
	if err := c.Err(); err != nil {
		out.Up, out.Err = false, err
	}
	return out
}

// Calls are what became of calls since Dial.
type Calls struct {
	Calls     uint64 // made
	Errors    uint64 // that ended with an error, in time
	Timeouts  uint64 // that were not answered in time
	Short     uint64 // not made: the server is away
	Full      uint64 // not made: too many were under way
	Late      uint64 // attempts that were reserved too late
	TakenBack uint64 // of them, those that were taken back
	UnderWay  int    // now, late ones included
	// Took are the calls by how long they were waited for: as many as each of Buckets has room
	// for and the one before has not, the rest last. Waited is the sum.
	Took   [len(line.Buckets) + 1]uint64
	Waited time.Duration
}

// Buckets returns the upper bounds of the times that Calls tells apart.
func Buckets() []time.Duration { return slices.Clone(line.Buckets[:]) }

// Calls returns what became of calls.
func (c *Client) Calls() Calls { return Calls(c.line.Counts()) }

// Clocks returns by how much the clock of each server is ahead of this process's, by address, to
// half of the time that asking took.
func (c *Client) Clocks(ctx context.Context) (map[string]time.Duration, error) {
	client, _, err := c.get()
	if err != nil {
		return nil, err
	}
	ahead := map[string]time.Duration{}
	for address, node := range client.Nodes() {
		began := time.Now()
		said, err := node.Do(ctx, node.B().Time().Build()).AsIntSlice()
		took := time.Since(began)
		if err != nil || len(said) != 2 {
			return nil, fmt.Errorf("redisstore: time of %s: %w", address, err)
		}
		ahead[address] = time.Unix(said[0], said[1]*1000).Sub(began.Add(took / 2).Round(0))
	}
	return ahead, nil
}

// watch asks for signs of life, so that a process to which nobody comes knows of its server too.
func (c *Client) watch() {
	for c.ctx.Err() == nil {
		every := time.Second
		if h := c.line.Health(); h.State == breaker.Up || time.Now().After(h.Retry) {
			if c.line.Settle(c.ctx, life{c}, nil) != nil && h.State == breaker.Up {
				every = 100 * time.Millisecond // to be sure soon
			}
		}
		rest(c.ctx, every)
	}
}

// life is a store whose Settle writes one key that expires: a server that answers PING may still
// take no charge.
type life struct{ *Client }

func (life) Reserve(context.Context, []guard.Charge) error { return nil }

func (l life) Settle(ctx context.Context, _ []guard.Charge) error {
	client, _, err := l.get()
	if err == nil {
		err = client.Do(ctx, client.B().Set().Key(l.options.Prefix+"life").Value("").PxMilliseconds(1000).Build()).Error()
	}
	return away(err)
}
