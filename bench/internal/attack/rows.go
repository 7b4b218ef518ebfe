package attack

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/doorward/doorward/bench/internal/report"
)

const attacker = "203.0.113.66"

// hash is how long the application takes where that matters.
const hash = 100 * time.Millisecond

// Rows are the attacks.
var Rows = []Row{
	{Name: "a burst", What: func(s Size) string {
		return fmt.Sprintf("One caller sends %s wrong guesses at once; each takes 100 ms to judge. Then %d others log in.", number(s.Guesses), people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		s.together(t.size.Guesses, request{from: attacker, takes: hash})
		s.honest()
		return s.beyond(Limit)
	}},
	{Name: "an office logs in", What: func(Size) string {
		return fmt.Sprintf("No attack: %d people behind one address send the right password at the same moment; each takes 100 ms to judge.", people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		s.refused = s.together(people, request{from: attacker, right: true, takes: hash})
		return s.beyond(Limit)
	}},
	{Name: "a /64", What: func(s Size) string {
		return fmt.Sprintf("One subscriber guesses from %s addresses of an IPv6 /64, once from each. Then %d others log in.", number(s.Addresses), people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		for i := range t.size.Addresses {
			s.send(request{from: fmt.Sprintf("2001:db8:1:2::%x:1", i)})
		}
		s.honest()
		return s.beyond(Limit)
	}},
	{Name: "a /48", What: func(s Size) string {
		return fmt.Sprintf("One customer guesses from %s networks of an IPv6 /48, once from each. The policy allows a /48 %d; where a limiter has no rule for that, it stands with what it has.", number(s.Addresses), Site)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		for i := range t.size.Addresses {
			s.send(request{from: fmt.Sprintf("2001:db8:1:%x::1", i)})
		}
		s.honest()
		return s.beyond(Site)
	}},
	{Name: "random X-Forwarded-For", Headers: true, What: func(s Size) string {
		return fmt.Sprintf("The application is behind one proxy, which appends the caller's address to X-Forwarded-For, and the limiter is set up for that where it can be. One caller sends %s guesses, each with a random address in that header. Then %d others log in through the same proxy.", number(s.Guesses), people)
	}, run: func(t *trial) Figures { return t.forge(false) }},
	{Name: "two header lines", Headers: true, What: func(s Size) string {
		return "The same with a proxy that adds a header line of its own, as some do: the caller's line stands first."
	}, run: func(t *trial) Figures { return t.forge(true) }},
	{Name: "more addresses than the table holds", What: func(s Size) string {
		return fmt.Sprintf("The table holds %s clients, where there is a bound. Three times, one caller guesses until refused, and %s bots, each a network of its own, guess once. Honest are %d who mistyped once before that, and %d who were not there yet; all then log in.", number(s.Capacity), number(2*s.Capacity), people, people)
	}, run: overflow},
	{Name: "the window's edge", What: func(Size) string {
		return "One caller guesses when it gains most: once, then the rest just before the window ends, then whenever there is something; or all at the end; or whenever there is something from the start. What counts is the most guesses judged within less than one window."
	}, run: edge},
	{Name: "own login in between", What: func(s Size) string {
		return fmt.Sprintf("One caller guesses four times and logs in to an account of its own, %d times over. Then %d others log in.", s.Guesses/4, people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		for range t.size.Guesses / 4 {
			s.guess(4, request{from: attacker})
			s.send(request{from: attacker, right: true})
		}
		s.honest()
		return s.beyond(Limit)
	}},
	{Name: "refunds across windows", What: func(Size) string {
		return "One caller begins five slow attempts at the end of a window, which the application will call never judged, where it can. In the next window it guesses until refused, before and after those are taken back."
	}, run: refunds},
	{Name: "clock set forward and back", Stepped: true, What: func(Size) string {
		return fmt.Sprintf("The machine's clock is set an hour forward and back again, then back and forward. One caller guesses before, between and after. Honest are %d who typed wrong five times in the wrong hour and come again when the policy allows it.", people)
	}, run: steps},
	{Name: "hanging up before the answer", What: func(s Size) string {
		return fmt.Sprintf("One caller sends %s guesses and is gone when each has been judged, before it is answered. Then %d others log in.", number(s.Guesses), people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		s.guess(t.size.Guesses, request{from: attacker, then: hangUp})
		s.honest()
		return s.beyond(Limit)
	}},
	{Name: "a status that is not counted", What: func(s Size) string {
		return fmt.Sprintf("One caller sends %s guesses that make the application answer 500 after it has judged them. Then %d others log in.", number(s.Guesses), people)
	}, run: func(t *trial) Figures {
		s := t.open(Setup{})
		s.guess(t.size.Guesses, request{from: attacker, then: crash})
		s.honest()
		return s.beyond(Limit)
	}},
}

func number(n int) string { return report.Group(float64(n)) }

// forge guesses with forwarded addresses made up.
func (t *trial) forge(lines bool) Figures {
	s := t.open(Setup{Proxied: true})
	r := rand.New(rand.NewPCG(1, 2))
	for range t.size.Guesses {
		made := fmt.Sprintf("192.0.%d.%d", r.IntN(256), 1+r.IntN(254))
		s.send(request{from: attacker, forwarded: []string{made}, lines: lines})
	}
	s.honest()
	return s.beyond(Limit)
}

func overflow(t *trial) Figures {
	s := t.open(Setup{Capacity: t.size.Capacity})
	for i := range people {
		s.send(request{from: home(i)})
	}
	before := len(s.judged)
	byBots := 0
	for range 3 {
		s.guess(2*Limit, request{from: attacker})
		n := len(s.judged)
		for i := range 2 * t.size.Capacity {
			s.send(request{from: bot(i)})
		}
		byBots += len(s.judged) - n
	}
	s.login(0)
	s.login(people)
	return s.beyond(before + byBots + Limit)
}

// edge returns the best of three schedules.
func edge(t *trial) Figures {
	best := Figures{}
	for _, first := range []int{1, 0, Limit} {
		s := t.open(Setup{})
		s.guess(first, request{from: attacker})
		if first < Limit {
			time.Sleep(s.Window - s.Window/1000)
		}
		for range 180 {
			s.guess(Limit+1, request{from: attacker})
			time.Sleep(s.Window / 60)
		}
		most := 0
		for i, from := range s.judged {
			n := 0
			for _, at := range s.judged[i:] {
				if at.Sub(from) < s.Window {
					n++
				}
			}
			most = max(most, n)
		}
		s.done()
		best.Beyond = max(best.Beyond, most-Limit)
	}
	return best
}

func refunds(t *trial) Figures {
	s := t.open(Setup{})
	slow := make(chan int)
	s.guess(1, request{from: attacker}) // the window begins
	time.Sleep(s.Window * 9 / 10)
	go func() { slow <- s.together(Limit, request{from: attacker, takes: s.Window / 4, then: void}) }()
	time.Sleep(s.Window*11/10 - s.Window*9/10)
	before := len(s.judged)
	s.together(2*Limit, request{from: attacker})
	<-slow
	s.together(2*Limit, request{from: attacker})
	return s.beyond(before + Limit)
}

// steps runs on a real clock with a short window: a bubble has no monotonic one.
func steps(t *trial) Figures {
	const hour = time.Hour
	s := t.open(Setup{Window: 2 * time.Second})
	guess := func() { s.guess(2*Limit, request{from: attacker}) }
	mistype := func() {
		for i := range people {
			s.guess(Limit, request{from: home(i)})
		}
	}
	guess()
	stepClock(hour)
	guess()
	mistype()
	stepClock(-hour)
	guess()
	stepClock(-hour)
	guess()
	stepClock(hour)
	guess()
	n := len(s.judged) - people*Limit
	time.Sleep(s.Window * 5 / 4)
	s.honest()
	f := s.done()
	f.Beyond = max(0, n-Limit)
	return f
}
