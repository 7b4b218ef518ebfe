package guard_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/doorward/doorward"
	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/guard"
)

// A besieger makes moves on a guard and notes the second of each guess that is
// admitted.
type besieger struct {
	siege
	g       *guard.Guard
	second  int
	victims int
	guesses []int
	mine    []guard.Permit // held, of accounts of one's own
	held    []guard.Permit // of victims
	said    [][3]int       // move, network, which; or -1 and the second
}

func (s siege) begin(t testing.TB) *besieger {
	g, err := guard.New(guard.Config{Rules: s.rules})
	if err != nil {
		t.Fatal(err)
	}
	return &besieger{siege: s, g: g}
}

func (b *besieger) now() time.Time { return start.Add(time.Duration(b.second) * time.Second) }

func (b *besieger) who(net int, subject string) guard.Request {
	return guard.Request{
		Addr: netip.AddrFrom4([4]byte{192, 0, 2, byte(1 + net)}), How: clientip.Peer,
		Subject: doorward.KeyFromName(subject), Challenge: doorward.KeyFromName("code of " + subject),
	}
}

func (b *besieger) guess(net int) guard.Permit {
	victim := "victim"
	if !b.one {
		b.victims++
		victim = fmt.Sprint("victim ", b.victims)
	}
	p := b.g.Attempt(b.who(net, victim), b.now())
	if p.Allowed {
		b.guesses = append(b.guesses, b.second)
	}
	return p
}

// moves are what can be done beside letting a second pass. Nobody can make an outcome
// void, nor succeed at a victim but its owner, who comes from elsewhere.
var moves = []struct {
	name string
	odds int
	do   func(b *besieger, net, n int)
}{
	{"guess", 12, func(b *besieger, net, n int) { p := b.guess(net); p.Settle(doorward.Failed, b.now()) }},
	{"guess, held", 3, func(b *besieger, net, n int) { b.held = append(b.held, b.guess(net)) }},
	{"held guess fails", 2, func(b *besieger, net, n int) { b.end(&b.held, n, doorward.Failed) }},
	{"own fails", 8, func(b *besieger, net, n int) { b.own(net, n, doorward.Failed) }},
	{"own succeeds", 10, func(b *besieger, net, n int) { b.own(net, n, doorward.Succeeded) }},
	{"own malformed", 3, func(b *besieger, net, n int) { b.own(net, n, doorward.Malformed) }},
	{"own, held", 6, func(b *besieger, net, n int) { b.mine = append(b.mine, b.g.Attempt(b.mineFrom(net, n), b.now())) }},
	{"held one fails", 4, func(b *besieger, net, n int) { b.end(&b.mine, n, doorward.Failed) }},
	{"held one succeeds", 4, func(b *besieger, net, n int) { b.end(&b.mine, n, doorward.Succeeded) }},
	{"held one malformed", 1, func(b *besieger, net, n int) { b.end(&b.mine, n, doorward.Malformed) }},
	{"own fails by device", 2, func(b *besieger, net, n int) { b.device(net, n, doorward.Failed) }},
	{"own succeeds by device", 2, func(b *besieger, net, n int) { b.device(net, n, doorward.Succeeded) }},
	{"owner fails", 2, func(b *besieger, net, n int) { b.owner(false, doorward.Failed) }},
	{"owner fails by device", 2, func(b *besieger, net, n int) { b.owner(true, doorward.Failed) }},
	{"owner succeeds", 3, func(b *besieger, net, n int) { b.owner(false, doorward.Succeeded) }},
}

// mineFrom is an attempt at one of two accounts of one's own: from any of one's
// networks, and rarely from one that guesses do not come from.
func (b *besieger) mineFrom(net, n int) guard.Request {
	if n%8 == 7 {
		net = 200
	}
	return b.who(net, []string{"mine", "mine too"}[n%2])
}

func (b *besieger) own(net, n int, o doorward.Outcome) {
	p := b.g.Attempt(b.mineFrom(net, n), b.now())
	p.Settle(o, b.now())
}

func (b *besieger) device(net, n int, o doorward.Outcome) {
	r := b.mineFrom(net, n)
	r.Device = doorward.KeyFromName("phone")
	p := b.g.Attempt(r, b.now())
	p.Settle(o, b.now())
}

// owner is someone who has nothing to do with it, on the subject that is guessed at.
func (b *besieger) owner(known bool, o doorward.Outcome) {
	r := b.who(99, "victim")
	if known {
		r.Device = doorward.KeyFromName("the owner's phone")
	}
	p := b.g.Attempt(r, b.now())
	p.Settle(o, b.now())
}

func (b *besieger) end(held *[]guard.Permit, n int, o doorward.Outcome) {
	if len(*held) > 0 {
		i := n % len(*held)
		(*held)[i].Settle(o, b.now())
		*held = slices.Delete(*held, i, i+1)
	}
}

// gained compares what was admitted by each second with the best that guesses alone get
// by then. From a later second on it may be one more for each network: the clock of
// decay runs on when failures are given back (L10), so it can be set going before.
func (b *besieger) gained(best []int) string {
	by := make([]int, len(best)+1)
	for _, second := range b.guesses {
		if second < len(best) {
			by[second+1]++
		}
	}
	for i := range best {
		by[i+1] += by[i]
	}
	for from := range best {
		for to := from; to < len(best); to++ {
			n, most := by[to+1]-by[from], best[to-from]
			if from > 0 {
				most += b.nets
			}
			if n > most {
				return fmt.Sprintf("%d guesses from second %d to %d, guesses alone get %d", n, from, to, best[to-from])
			}
		}
	}
	return ""
}

// G3: no schedule of failures, malformed requests and logins at accounts of one's own,
// primed or not, of reservations held or dropped, gains one guess.
func TestNoScheduleGainsAGuess(t *testing.T) {
	const trials = 450
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for i, s := range sieges() {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			best := s.guessOnly(t, 44-12*(s.nets-1))
			most := 0
			for i := range trials {
				b := s.begin(t)
				if i%3 == 0 {
					b.rounds(random, len(best))
				} else {
					b.anything(random, len(best))
				}
				if gained := b.gained(best); gained != "" {
					t.Fatalf("%s: %s", gained, b.story())
				}
				most = max(most, len(b.guesses))
			}
			t.Logf("at most %d guesses, guesses alone get %d", most, best[len(best)-1])
			if 2*most < best[len(best)-1] {
				t.Error("the search is far from what guesses alone get: it shows nothing")
			}
		})
	}
}

func (b *besieger) move(m, net, n int) {
	moves[m].do(b, net, n)
	b.said = append(b.said, [3]int{m, net, n})
}

func (b *besieger) wait(seconds int) {
	b.second += seconds
	b.said = append(b.said, [3]int{-1, b.second})
}

func (b *besieger) story() (s string) {
	for _, x := range b.said {
		if x[0] < 0 {
			s += fmt.Sprintf("until %d; ", x[1])
		} else {
			s += fmt.Sprintf("%s (%d, %d), ", moves[x[0]].name, x[1], x[2])
		}
	}
	return s
}

// anything makes moves of a few kinds, or of all, at random.
func (b *besieger) anything(random *rand.Rand, seconds int) {
	var deck []int
	for i, m := range moves {
		deck = append(deck, slices.Repeat([]int{i}, m.odds)...)
	}
	hand := deck
	if random.IntN(3) > 0 {
		hand = []int{0}
		for range 2 + random.IntN(4) {
			hand = append(hand, deck[random.IntN(len(deck))])
		}
	}
	for pace := 2 + random.IntN(8); b.second < seconds; {
		if random.IntN(pace) == 0 {
			b.wait(1 + random.IntN(2)*random.IntN(6))
		} else {
			b.move(hand[random.IntN(len(hand))], random.IntN(b.nets), random.IntN(64))
		}
	}
}

// rounds primes accounts of one's own, guesses, and has it given back, over and over.
func (b *besieger) rounds(random *rand.Rand, seconds int) {
	waits := [3]int{random.IntN(3), random.IntN(5), random.IntN(8)}
	prime := []int{3, 3, 5, 6, 10, 12, 13}[random.IntN(7)] // fails, malformed, held, by device, the owner's
	times, guesses, n := random.IntN(4), 1+random.IntN(4), random.IntN(64)
	for round := 0; b.second < seconds; round++ {
		net := round % b.nets
		for range times {
			b.move(prime, net, n)
		}
		b.wait(waits[0])
		for range guesses {
			b.move(0, net, n)
		}
		b.wait(waits[1])
		if random.IntN(4) == 0 {
			b.move(1+random.IntN(len(moves)-1), net, random.IntN(64))
		}
		if prime < 12 {
			b.move([]int{4, 4, 8, 11}[random.IntN(4)], net, n)
		} else {
			b.move(14, net, n)
		}
		if b.wait(waits[2]); round%4 == 3 {
			b.wait(1)
		}
	}
}

// Every sequence of a few moves, each followed by as many guesses as are admitted at
// once.
func TestNoShortSequenceGainsAGuess(t *testing.T) {
	for i, s := range sieges() {
		length := 4
		if i == 0 {
			length = 5
		} else if s.nets > 1 {
			continue
		}
		best := s.guessOnly(t, 16)
		try := func(sequence []int) {
			b := s.begin(t)
			for _, m := range sequence {
				if m < 0 {
					b.wait(-m)
				} else {
					b.move(m, 0, 0)
				}
			}
			for range 8 {
				moves[0].do(b, 0, 0)
			}
			if gained := b.gained(best); gained != "" {
				t.Fatalf("%s: %s: %s", s.name, gained, b.story())
			}
		}
		alphabet := []int{0, 3, 4, 6, 7, 8, -3}
		var extend func(sequence []int)
		extend = func(sequence []int) {
			if len(sequence) == length {
				try(sequence)
				return
			}
			for _, m := range alphabet {
				extend(append(sequence, m))
			}
		}
		extend(make([]int, 0, length))
	}
}

// Logging in to an account of one's own after every fourth wrong guess gains not one
// guess: not at once, nor in a day.
func TestLoginAfterEveryFourthGuess(t *testing.T) {
	day := func(login, prime bool) (atOnce, inADay int) {
		s := tell(t, guard.Config{Rules: slices.Clone(guard.Login.Rules)})
		guesses := 0
		mine := s.on("192.0.2.1", "mine")
		if prime { // an hour before
			for range 4 {
				p := s.Attempt(mine, at(-3600))
				p.Settle(doorward.Failed, at(-3600))
			}
		}
		for minute := range 24 * 60 {
			now := at(60 * float64(minute))
			for {
				p := s.Attempt(s.on("192.0.2.1", fmt.Sprint("victim ", guesses)), now)
				if !p.Allowed {
					break
				}
				p.Settle(doorward.Failed, now)
				if guesses++; login && guesses%4 == 0 {
					p := s.Attempt(mine, now)
					p.Settle(doorward.Succeeded, now)
				}
			}
			if minute == 0 {
				atOnce = guesses
			}
		}
		return atOnce, guesses
	}
	atOnce, inADay := day(false, false)
	if atOnce != 36 {
		t.Errorf("%d guesses at once, want 36", atOnce)
	}
	if a, d := day(true, false); a != atOnce || d != inADay {
		t.Errorf("with logins %d guesses at once and %d in a day, want %d and %d", a, d, atOnce, inADay)
	}
	if a, d := day(true, true); a > atOnce || d > inADay {
		t.Errorf("with logins and typos before %d guesses at once and %d in a day, want at most %d and %d", a, d, atOnce, inADay)
	}
	t.Log(atOnce, inADay)
}
