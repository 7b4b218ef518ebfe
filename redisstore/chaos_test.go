package redisstore

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/lockout"
	"github.com/doorward/doorward/redisstore/internal/server"
	"github.com/doorward/doorward/redisstore/internal/wire"
)

// What these tests are about: wrong guesses at many keys, from three nodes in each of the three
// modes, while something happens to the server that holds the keys. policy is what one
// key is admitted, nodes how many count for themselves while it is away.
const (
	policy    = 5
	fleetSize = 3
)

var modes = [...]Mode{Local, Closed, FailOpen}

func chaosRule() guard.Rule {
	return guard.Rule{Name: "network", V4: 32, Lockout: &lockout.Policy{FreeFailures: policy, Window: time.Hour, FirstLockout: time.Hour, MaxLockout: time.Hour}}
}

// A chaosNode is a process with a network of its own, as far as the servers can tell.
type chaosNode struct {
	wire   *wire.Wire
	client *Client
	store  *Store
	guard  *guard.Guard
}

// A fleet is the nodes of one mode. They share what they count.
type fleet struct {
	mode  Mode
	nodes [fleetSize]*chaosNode
	// observer is a node that knows nothing but what the server tells it, and admits nothing
	// else. It comes when all is over.
	observer *chaosNode
}

// newFleet starts nodes whose keys all are in one slot. They reach the servers by networks that may break.
func newFleet(t *testing.T, m Mode, name string, change func(*Options)) *fleet {
	t.Helper()
	f := &fleet{mode: m, observer: newNode(t, Closed, name, change)}
	for i := range f.nodes {
		f.nodes[i] = newNode(t, m, name, change)
	}
	return f
}

func newNode(t *testing.T, m Mode, name string, change func(*Options)) *chaosNode {
	t.Helper()
	n := &chaosNode{wire: wire.New(t)}
	o := Options{Secret: []byte("a secret of tests"), Partitions: 1, dial: n.wire.Dial}
	change(&o)
	var err error
	if n.client, err = Dial(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.client.Close)
	if n.store, err = n.client.Store(name, m); err != nil {
		t.Fatal(err)
	}
	if n.guard, err = guard.New(guard.Config{Rules: []guard.Rule{chaosRule()}, Store: n.store}); err != nil {
		t.Fatal(err)
	}
	return n
}

// slotKey returns a key in the slot of what a guard of a name counts.
func slotKey(name string) string { return "{" + name + ":network:4l1.0}" }

func caller(key int) guard.Request {
	return guard.Request{How: clientip.Peer, Addr: netip.AddrFrom4([4]byte{10, byte(key >> 16), byte(key >> 8), byte(key)})}
}

// waits are how long calls took.
type waits struct {
	mu  sync.Mutex
	all []time.Duration
}

func (w *waits) add(d ...time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, d...)
}

func (w *waits) quantile(q float64) time.Duration {
	if len(w.all) == 0 {
		return 0
	}
	slices.Sort(w.all)
	return w.all[min(len(w.all)-1, int(q*float64(len(w.all))))]
}

// guess makes a wrong guess, and returns whether it was admitted. What is refused has a reason, and
// what nobody decided is not admitted.
func (n *chaosNode) guess(t *testing.T, m Mode, key int, w *waits) (admitted bool, why doorward.Reason) {
	begin := time.Now()
	p, err := n.guard.AttemptContext(ctx, caller(key), begin)
	first := time.Since(begin)
	switch {
	case err != nil && (p.Allowed || p.Reason != doorward.Unavailable || m == Local):
		t.Errorf("%v: %+v with %v", m, p.Verdict, err)
	case err == nil && !p.Allowed && p.Reason == 0:
		t.Errorf("%v: %+v: refused without a reason", m, p.Verdict)
	}
	if !p.Allowed {
		w.add(first)
		return false, p.Reason
	}
	begin = time.Now()
	p.SettleContext(ctx, doorward.Failed, begin) // after an error it is a failure by lease
	w.add(first, time.Since(begin))
	return true, 0
}

// A siege is an attack on many keys, while something happens.
type siege struct {
	fleets   []*fleet
	from     int              // the first key: no siege is at the keys of another
	admitted [][]atomic.Int32 // of each fleet, by key
	told     [][]atomic.Bool  // whether a node was told that it is locked
	opened   []uint64         // of each fleet, let in undecided
	begun    time.Time
	waits    waits
	late     time.Duration // by which the machine let a timer wait, at worst
	stop     chan struct{}
	done     sync.WaitGroup
	over     chan struct{} // the sweep, too
	timer    sync.WaitGroup
}

const (
	siegeKeys = 1000 // at most
	lively    = 15   // of these many the newest, most guesses are made
	attackers = 2    // of each node
	pace      = 4 * time.Millisecond
)

var sieges atomic.Int32

func (f *fleet) open() (n uint64) {
	for _, x := range f.nodes {
		n += x.store.Alone().Open
	}
	return n
}

// attack begins a siege.
func attack(t *testing.T, fleets []*fleet) *siege {
	s := &siege{fleets: fleets, from: int(sieges.Add(1)) * siegeKeys, begun: time.Now(), stop: make(chan struct{}), over: make(chan struct{})}
	for _, f := range fleets {
		s.admitted = append(s.admitted, make([]atomic.Int32, siegeKeys))
		s.told = append(s.told, make([]atomic.Bool, siegeKeys))
		s.opened = append(s.opened, f.open())
	}
	s.timer.Go(func() {
		for {
			begin := time.Now()
			select {
			case <-s.over:
				return
			case <-time.After(pace):
			}
			s.late = max(s.late, time.Since(begin)-pace)
		}
	})
	for i, f := range fleets {
		for _, n := range f.nodes {
			for range attackers {
				s.done.Go(func() {
					tick := time.NewTicker(pace)
					defer tick.Stop()
					for {
						select {
						case <-s.stop:
							return
						case <-tick.C:
						}
						newest := s.newest()
						key := max(0, newest-rand.IntN(lively))
						if rand.IntN(8) == 0 {
							key = rand.IntN(newest + 1)
						}
						s.guess(t, i, n, f.mode, key)
					}
				})
			}
		}
	}
	return s
}

// newest returns the latest key that is guessed at: a new one every 6 ms, and more slowly in the end.
func (s *siege) newest() int {
	const quick = 600 * time.Millisecond
	d := time.Since(s.begun)
	return min(siegeKeys-1, int(min(d, quick)/(6*time.Millisecond)+max(d-quick, 0)/(25*time.Millisecond)))
}

func (s *siege) guess(t *testing.T, fleet int, n *chaosNode, m Mode, key int) doorward.Reason {
	ok, why := n.guess(t, m, s.from+key, &s.waits)
	if ok {
		s.admitted[fleet][key].Add(1)
	}
	if why == doorward.Locked {
		s.told[fleet][key].Store(true)
	}
	return why
}

// A toll is what a siege got, in one mode.
type toll struct {
	most  int // of one key
	above int // in all, above what the policy says of each
	open  int // of these, let in undecided
	lost  int // lockouts that a node was told of, and the server does not know any more
	keys  int
}

// end ends the siege: all nodes ask for all keys until they are refused, and then one that was
// never told of any of them.
func (s *siege) end(t *testing.T) (tolls []toll) {
	t.Helper()
	keys := s.newest() + 1
	close(s.stop)
	s.done.Wait()
	tolls = make([]toll, len(s.fleets))
	var wg sync.WaitGroup
	for i, f := range s.fleets {
		wg.Go(func() {
			toll := &tolls[i]
			toll.keys, toll.lost = keys, s.sweep(t, i, f.observer, Closed, keys)
			for _, n := range f.nodes {
				s.sweep(t, i, n, f.mode, keys)
			}
			toll.open = int(f.open() - s.opened[i])
			for key := range keys {
				n := int(s.admitted[i][key].Load())
				toll.most = max(toll.most, n)
				toll.above += max(0, n-policy)
			}
		})
	}
	wg.Wait()
	close(s.over)
	s.timer.Wait()
	return tolls
}

// sweep makes guesses at each key until they are refused, and returns how many lockouts are lost, as far as
// it is certain that the server told of them.
func (s *siege) sweep(t *testing.T, fleet int, n *chaosNode, m Mode, keys int) (lost int) {
	for key := range keys {
		told := s.told[fleet][key].Load() && s.fleets[fleet].mode == Closed
		for try := range 4 * policy {
			why := s.guess(t, fleet, n, m, key)
			if why == doorward.Locked || why == doorward.Busy {
				break
			}
			if why == 0 && try == 0 && told {
				lost++
			}
		}
	}
	return lost
}

// back waits until every node is decided for by the server.
func back(t *testing.T, fleets []*fleet) {
	t.Helper()
	for _, f := range fleets {
		for x, n := range append(f.nodes[:], f.observer) {
			server.Await(t, fmt.Sprintf("node %d of %v to have its server back", x, f.mode), func() bool {
				key := 1<<23 + rand.IntN(1<<23)
				before := n.store.Alone()
				p, err := n.guard.AttemptContext(ctx, caller(key), time.Now())
				if err == nil && p.Allowed {
					_, err = p.SettleContext(ctx, doorward.Void, time.Now())
				}
				return err == nil && n.store.Alone() == before
			})
		}
	}
}

// An event is what happens to the servers.
type event struct {
	name string
	// losses is how often counts may be lost: by a server that keeps nothing, or by a replica that did not have
	// them yet. Away says that the server does not decide for a while.
	losses int
	away   bool
	long   bool // only where DOORWARD_CHAOS is set
	// do makes it happen, and returns once it is over.
	do func(t *testing.T)
}

// most returns how often one key may be admitted at most. Whether an answer comes in time is for the
// machine to say, so nodes may have counted for themselves in any event.
func (e event) most(m Mode) int {
	n := policy * (1 + e.losses)
	if m == Local {
		n += policy * fleetSize
	}
	return n
}

// run makes an event happen during a siege, and returns what that got in each mode.
func (e event) run(t *testing.T, fleets []*fleet) (tolls []toll) {
	t.Helper()
	back(t, fleets)
	var before Calls
	for _, f := range fleets {
		for _, n := range f.nodes {
			before = plus(before, n.client.Calls())
		}
	}
	s := attack(t, fleets)
	pause(200 * time.Millisecond) // the load
	begin := time.Now()
	e.do(t)
	over := time.Now()
	back(t, fleets)
	t.Logf("%s: took %v, and %v until all nodes were back", e.name, over.Sub(begin).Round(time.Millisecond), time.Since(over).Round(time.Millisecond))
	pause(200 * time.Millisecond)
	tolls = s.end(t)
	var calls Calls
	for _, f := range fleets {
		for _, n := range f.nodes {
			calls = plus(calls, n.client.Calls())
		}
	}
	missed := calls.Errors + calls.Timeouts + calls.Short - before.Errors - before.Timeouts - before.Short
	if e.away && missed == 0 {
		t.Errorf("%s: no call failed: nothing happened", e.name)
	}
	for i, f := range fleets {
		toll := tolls[i]
		switch most := e.most(f.mode); {
		case f.mode != FailOpen && toll.most > most:
			t.Errorf("%s, %v: %d guesses at one key were admitted, want at most %d", e.name, f.mode, toll.most, most)
		case f.mode == FailOpen && toll.above > toll.open+policy*e.losses*toll.keys:
			t.Errorf("%s, open: %d admitted above the policy, and %d undecided", e.name, toll.above, toll.open)
		case f.mode != FailOpen && toll.open > 0:
			t.Errorf("%s, %v: %d let in undecided", e.name, f.mode, toll.open)
		case f.mode == Closed && toll.lost > 0 && e.losses == 0:
			t.Errorf("%s: %d lockouts that nodes were told of are lost", e.name, toll.lost)
		}
		t.Logf("%s, %v: %d keys, %d of one at most, %d above the policy, %d undecided, %d lockouts lost", e.name, f.mode, toll.keys, toll.most, toll.above, toll.open, toll.lost)
	}
	t.Logf("%s: %d calls, %d missed; half of them took %v, 99 %% %v, 99.9 %% %v, all %v; a timer was late by %v", e.name, len(s.waits.all), missed,
		s.waits.quantile(0.5), s.waits.quantile(0.99), s.waits.quantile(0.999), s.waits.quantile(1), s.late)
	// Ten times the deadline, and what a call that waits for several things may wait for the machine.
	if d := s.waits.quantile(1); d > 10*DefaultDeadline+4*s.late {
		t.Errorf("%s: a call took %v, and a timer was late by %v", e.name, d, s.late)
	}
	return tolls
}

func plus(a, b Calls) Calls {
	a.Errors += b.Errors
	a.Timeouts += b.Timeouts
	a.Short += b.Short
	return a
}

// pause lets the load go on for a while.
func pause(d time.Duration) { <-time.After(d) }

// rounds is how often each event happens: once, unless DOORWARD_CHAOS says more.
func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv("DOORWARD_CHAOS"))
	if os.Getenv("DOORWARD_CHAOS") == "" {
		return 1
	}
	if err != nil || n < 1 {
		t.Fatalf("DOORWARD_CHAOS must be how often each event happens, got %q", os.Getenv("DOORWARD_CHAOS"))
	}
	return n
}

// runAll runs events, and holds that the table of a name in docs/scaling.md says of each what it costs at
// most. Where DOORWARD_CHAOS is set, UPDATE_DOCS=1 writes what was seen.
func runAll(t *testing.T, table string, fleets []*fleet, events []event) {
	t.Helper()
	long := os.Getenv("DOORWARD_CHAOS") != ""
	seen := make([][len(modes)]int, len(events))
	for round := range rounds(t) {
		for n, e := range events {
			if t.Failed() {
				return
			}
			if e.long && !long {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", strings.ReplaceAll(e.name, " ", "_"), round), func(t *testing.T) {
				for i, toll := range e.run(t, fleets) {
					seen[n][i] = max(seen[n][i], toll.most)
				}
			})
		}
	}
	if t.Failed() {
		return // it would say what is wrong
	}
	inTable(t, table, func(rows [][]string) [][]string {
		was := map[string][]string{}
		for _, cells := range rows {
			was[cells[0]] = cells
		}
		var out [][]string
		for n, e := range events {
			cells := []string{e.name}
			for i, m := range modes {
				most := fmt.Sprint(e.most(m))
				if m == FailOpen {
					most += " and the undecided"
				}
				said := "?"
				if old := was[e.name]; len(old) == 1+2*len(modes) {
					said = old[2+2*i]
				}
				switch figure, err := strconv.Atoi(said); {
				case long && seen[n][i] > 0:
					said = fmt.Sprint(seen[n][i])
				case err != nil || m != FailOpen && figure > e.most(m):
					t.Errorf("docs/scaling.md: %q says that %q were seen in %v", e.name, said, m)
				}
				cells = append(cells, most, said)
			}
			out = append(out, cells)
		}
		return out
	})
}

var scaling sync.Mutex // who writes docs/scaling.md

// inTable holds that the table between two comments that name it in docs/scaling.md has the rows that want
// makes of those it has. What was seen differs from run to run, so it is written only where that is asked for.
func inTable(t *testing.T, name string, want func(rows [][]string) [][]string) {
	t.Helper()
	scaling.Lock()
	defer scaling.Unlock()
	const file = "../docs/scaling.md"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	before, rest, ok := strings.Cut(string(b), begin)
	table, after, ok2 := strings.Cut(rest, end)
	head := strings.SplitAfterN(table, "\n", 3)
	if !ok || !ok2 || len(head) < 3 {
		t.Fatalf("%s has no table %q", file, name)
	}
	var rows [][]string
	for line := range strings.Lines(head[2]) {
		rows = append(rows, strings.Split(strings.Trim(line, "| \n"), " | "))
	}
	made := head[0] + head[1]
	for _, cells := range want(rows) {
		made += "| " + strings.Join(cells, " | ") + " |\n"
	}
	switch update := os.Getenv("UPDATE_DOCS") != ""; {
	case made == table:
	case update:
		if err := os.WriteFile(file, []byte(before+begin+made+end+after), 0o644); err != nil {
			t.Error(err)
		}
	case os.Getenv("DOORWARD_CHAOS") == "":
		t.Errorf("%s: the table %q should be as follows; UPDATE_DOCS=1 writes it\n%s", file, name, made)
	}
}

// each does something to the network of all nodes.
func each(fleets []*fleet, do func(w *wire.Wire)) {
	for _, f := range fleets {
		for _, n := range f.nodes {
			do(n.wire)
		}
	}
}

const absence = 400 * time.Millisecond

// network are events between nodes and a server.
func network(fleets []*fleet, addr func() string) []event {
	broken := func(name string, do func(*wire.Wire, string)) event {
		return event{name: name, away: true, do: func(t *testing.T) {
			at := addr()
			each(fleets, func(w *wire.Wire) { do(w, at) })
			pause(absence)
			each(fleets, func(w *wire.Wire) { w.Heal(at) })
		}}
	}
	return []event{
		broken("all nodes are cut off", (*wire.Wire).Hold),
		broken("answers are held up", (*wire.Wire).HoldAnswers),
		broken("connections are reset", (*wire.Wire).Cut),
		{name: "one node is cut off", away: true, do: func(t *testing.T) {
			at := addr()
			for _, f := range fleets {
				f.nodes[0].wire.Hold(at)
			}
			pause(absence)
			for _, f := range fleets {
				f.nodes[0].wire.Heal(at)
			}
		}},
	}
}

// TestChaosServer: one server.
func TestChaosServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := server.Run(t, "--dir", dir, "--appendonly", "yes", "--appendfsync", "everysec")
	var fleets []*fleet
	for _, m := range modes {
		fleets = append(fleets, newFleet(t, m, m.String(), func(o *Options) { o.Addresses = []string{one.Addr} }))
	}
	events := append(network(fleets, func() string { return one.Addr }), []event{
		{name: "the server is paused", away: true, do: func(t *testing.T) {
			one.Pause()
			pause(absence)
			one.Resume()
		}},
		{name: "the server is killed, and has its file (everysec)", losses: 1, away: true, do: func(t *testing.T) {
			one.Kill()
			pause(absence)
			one.Start(t)
		}},
		{name: "the server is killed, and has its file (always)", away: true, do: func(t *testing.T) {
			server.Ask(t, one.Addr, "CONFIG", "SET", "appendfsync", "always")
			pause(100 * time.Millisecond)
			one.Kill()
			pause(absence)
			one.Start(t) // everysec
		}},
		{name: "the server is killed, and has no file", losses: 1, away: true, do: func(t *testing.T) {
			one.Kill()
			if err := os.RemoveAll(filepath.Join(dir, "appendonlydir")); err != nil {
				t.Fatal(err)
			}
			pause(absence)
			one.Start(t)
		}},
		{name: "FLUSHALL", losses: 1, do: func(t *testing.T) { server.Ask(t, one.Addr, "FLUSHALL") }},
		{name: "FUNCTION FLUSH and SCRIPT FLUSH", do: func(t *testing.T) {
			for range 5 {
				server.Ask(t, one.Addr, "FUNCTION", "FLUSH")
				server.Ask(t, one.Addr, "SCRIPT", "FLUSH")
				pause(20 * time.Millisecond)
			}
		}},
		{name: "memory is full", away: true, do: func(t *testing.T) {
			server.Ask(t, one.Addr, "CONFIG", "SET", "maxmemory", "1")
			pause(absence)
			server.Ask(t, one.Addr, "CONFIG", "SET", "maxmemory", "0")
		}},
	}...)
	runAll(t, "one server", fleets, events)
}

// TestChaosSentinel: a primary and its replica, watched by three Sentinels. It replicates asynchronously,
// so what a failover loses is bounded, and not none.
func TestChaosSentinel(t *testing.T) {
	t.Parallel()
	a, b, sentinels := server.Watched(t, "counts")
	var addrs []string
	for _, s := range sentinels {
		addrs = append(addrs, s.Addr)
	}
	var fleets []*fleet
	for _, m := range modes {
		fleets = append(fleets, newFleet(t, m, m.String(), func(o *Options) { o.Addresses, o.MasterName = addrs, "counts" }))
	}
	// roles returns which is the primary, once the other follows it and the Sentinels know.
	roles := func(t *testing.T) (primary, replica *server.Server) {
		t.Helper()
		server.Await(t, "a primary with a replica", func() bool {
			primary, replica = a, b
			if !a.Primary() {
				primary, replica = b, a
			}
			return primary.Primary() && replica.Follows(primary)
		})
		server.AwaitReplica(t, replica.Addr)
		for _, s := range sentinels {
			server.Await(t, "the Sentinels to know", func() bool {
				info, err := server.Try(s.Addr, "INFO", "sentinel")
				return err == nil && strings.Contains(info, "status=ok,address="+primary.Addr+",slaves=1")
			})
		}
		return primary, replica
	}
	promoted := func(t *testing.T, replica *server.Server) {
		t.Helper()
		server.Await(t, "the replica to be the primary", replica.Primary)
	}
	// switched waits until nodes are told to go to another primary.
	switched := func(t *testing.T, to *server.Server) {
		t.Helper()
		for _, s := range sentinels {
			server.Await(t, "the Sentinels to name it", func() bool {
				info, err := server.Try(s.Addr, "INFO", "sentinel")
				return err == nil && strings.Contains(info, ",address="+to.Addr+",")
			})
		}
		pause(100 * time.Millisecond)
	}
	failover := func(t *testing.T) {
		t.Helper()
		server.Await(t, "a Sentinel to begin a failover", func() bool {
			_, err := server.Try(sentinels[0].Addr, "SENTINEL", "FAILOVER", "counts")
			return err == nil
		})
	}
	runAll(t, "Sentinels", fleets, []event{
		{name: "CLIENT PAUSE, then SENTINEL FAILOVER", away: true, do: func(t *testing.T) {
			primary, replica := roles(t)
			server.Ask(t, primary.Addr, "CLIENT", "PAUSE", "30000", "WRITE")
			server.Await(t, "the replica to have all", func() bool { return replica.Offset(t) == primary.Offset(t) })
			failover(t)
			promoted(t, replica)
			host, port, _ := net.SplitHostPort(replica.Addr)
			server.Ask(t, primary.Addr, "REPLICAOF", host, port)
			server.Ask(t, primary.Addr, "CLIENT", "UNPAUSE")
		}},
		{name: "the primary is killed, its replica takes over", losses: 1, away: true, do: func(t *testing.T) {
			primary, replica := roles(t)
			primary.Kill()
			promoted(t, replica)
			back(t, fleets) // who does not know yet would take it, empty, for the primary
			primary.Start(t)
		}},
		{name: "the primary is paused, its replica takes over, and it goes on", losses: 1, away: true, long: true, do: func(t *testing.T) {
			primary, replica := roles(t)
			primary.Pause()
			promoted(t, replica)
			primary.Resume()
			switched(t, replica)
		}},
		{name: "SENTINEL FAILOVER", losses: 1, long: true, do: func(t *testing.T) {
			_, replica := roles(t)
			failover(t)
			promoted(t, replica)
			switched(t, replica)
		}},
		{name: "SENTINEL FAILOVER, with min-replicas-to-write", losses: 1, long: true, do: func(t *testing.T) {
			primary, replica := roles(t)
			server.Ask(t, primary.Addr, "CONFIG", "SET", "min-replicas-to-write", "1")
			failover(t)
			promoted(t, replica)
			switched(t, replica)
			server.Ask(t, primary.Addr, "CONFIG", "SET", "min-replicas-to-write", "0")
		}},
	})
}

// TestChaosCluster: three primaries and their replicas. What happens, happens to the primary that holds the keys.
func TestChaosCluster(t *testing.T) {
	t.Parallel()
	all := server.Replicated(t, 3, 1)
	var addrs, names, slots []string
	for _, p := range all {
		addrs = append(addrs, p.Addr)
	}
	for i := 0; len(names) < len(modes); i++ { // all on the first primary
		name := fmt.Sprint("login", i)
		slot := server.Ask(t, addrs[0], "CLUSTER", "KEYSLOT", slotKey(name))
		if n, _ := strconv.Atoi(slot); n < 16384/3 {
			names, slots = append(names, name), append(slots, slot)
		}
	}
	var fleets []*fleet
	for i, m := range modes {
		fleets = append(fleets, newFleet(t, m, names[i], func(o *Options) { o.Addresses = addrs }))
	}
	// holder returns the primary that has the keys, and its replica.
	holder := func(t *testing.T) (primary, replica *server.Server) {
		t.Helper()
		for _, p := range all {
			n, err := server.Try(p.Addr, "CLUSTER", "COUNTKEYSINSLOT", slots[0])
			if p.Primary() && err == nil && n != "0" {
				primary = p
			}
		}
		if primary == nil {
			t.Fatal("no primary has the keys")
		}
		for _, p := range all {
			if p.Follows(primary) {
				replica = p
			}
		}
		if replica == nil {
			t.Fatal("nobody follows who has the keys")
		}
		server.AwaitReplica(t, replica.Addr)
		return primary, replica
	}
	failover := func(name string, losses int, words ...string) event {
		return event{name: name, losses: losses, do: func(t *testing.T) {
			primary, replica := holder(t)
			server.Ask(t, replica.Addr, append([]string{"CLUSTER", "FAILOVER"}, words...)...)
			server.Await(t, "the replica to be the primary", func() bool { return replica.Primary() && primary.Follows(replica) })
		}}
	}
	events := []event{
		{name: "slots move", do: func(t *testing.T) {
			from, _ := holder(t)
			to := all[slices.IndexFunc(all, func(p *server.Server) bool { return p != from && p.Primary() })]
			for _, slot := range slots {
				server.MoveSlot(t, slot, from, to, all, func(keys []string) []string {
					pause(5 * time.Millisecond)
					return keys
				})
			}
		}},
		failover("CLUSTER FAILOVER", 0),
		failover("CLUSTER FAILOVER FORCE", 1, "FORCE"),
		{name: "the primary is killed, its replica takes over", losses: 1, away: true, do: func(t *testing.T) {
			primary, replica := holder(t)
			primary.Kill()
			server.Await(t, "the replica to be the primary", replica.Primary)
			back(t, fleets) // who does not know yet would take it, empty, for the primary
			primary.Start(t)
			server.Await(t, "it to follow", func() bool { return primary.Follows(replica) })
		}},
		{name: "the primary is paused, its replica takes over, and it goes on", losses: 1, away: true, long: true, do: func(t *testing.T) {
			primary, replica := holder(t)
			primary.Pause()
			server.Await(t, "the replica to be the primary", replica.Primary)
			primary.Resume()
			server.Await(t, "it to follow", func() bool { return primary.Follows(replica) })
		}},
		{name: "the primary is paused", away: true, long: true, do: func(t *testing.T) {
			primary, _ := holder(t)
			primary.Pause()
			pause(absence)
			primary.Resume()
		}},
	}
	for _, e := range append(network(fleets, func() string { p, _ := holder(t); return p.Addr }), failover("CLUSTER FAILOVER TAKEOVER", 1, "TAKEOVER")) {
		e.long = true
		events = append(events, e)
	}
	runAll(t, "a cluster", fleets, events)
}
