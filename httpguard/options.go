package httpguard

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// What a zero field of Options stands for.
const (
	DefaultMaxBody     = 64 << 10
	DefaultBodyTimeout = 10 * time.Second
	DefaultMaxWaiting  = 1024

	DefaultDeviceCookie = "doorward_device"
)

// Options describe a Gate. Only Guard must be set.
type Options struct {
	// Guard decides.
	Guard *guard.Guard
	// Clients names the caller. Nil: the TCP peer.
	Clients *clientip.Resolver
	// Outcome reads the handler's answer where the handler does not settle its
	// attempt itself; the header Doorward-Outcome is then removed from what is sent.
	// Nil: a handler that says nothing has failed the attempt.
	Outcome *outcome.Classifier
	// Refuse answers refused requests; FromRequest works in it. Nil: the function
	// Refuse. A replacement should answer all refusals of a status alike: what
	// differs tells the caller which rule refused.
	Refuse func(http.ResponseWriter, *http.Request, guard.Verdict)
	// Settled, if set, is called once when an attempt is settled, from the goroutine
	// that settles it and before the answer is sent. Requests that were refused, or
	// whose body did not arrive, were no attempts.
	Settled func(*http.Request, *Permit)
	// Subject names what is being guessed at: an account, a code. It sees a copy of
	// the request as the handler would get it, with the body in memory, and may read
	// that. The handler reads the body from its beginning. "" names none.
	//
	// A request that names no subject or makes Subject fail does not reach the
	// handler. It is charged without a subject, settled as malformed, and answered
	// with 400, or with what the method Status() int of the error says if that is 400,
	// 413 or 415. Exempt callers are not asked.
	//
	// Nil: no request has a subject, and no rule of the guard may need one.
	Subject func(*http.Request) (string, error)
	// Challenge names one code or session of the subject, as Subject names that. ""
	// is no error: rules per challenge then do not apply.
	//
	// The bytes count as they are. An application that takes two spellings for one
	// challenge gives it two budgets, unless Challenge makes one of them.
	Challenge func(*http.Request) (string, error)
	// OptionalSubject lets requests without a subject through: rules per subject, pair
	// and device do not apply to them. An error of Subject is still one.
	OptionalSubject bool
	// Canonical makes one subject of its spellings. Nil: guard.Canonical, which says
	// what it does not fold. A name that it makes "" of names no subject.
	Canonical func(string) string
	// Devices, if set, signs and verifies the tokens of known devices. They are kept in a
	// cookie, the last five, so that a browser can be known for several subjects, and
	// given out and renewed with the final status of an attempt that succeeded. Who
	// hijacks the connection, switches protocols or settles later gives out none.
	Devices *device.Signer
	// DeviceCookie is the name of the cookie: "" is DefaultDeviceCookie. Gates with
	// different Devices on one site need different names. A name that begins with
	// __Host- keeps other hosts of the domain from setting it, and needs TLS.
	DeviceCookie string
	// MaxBody is how many bytes a request body may have: 0 is DefaultMaxBody. The
	// body is read into memory before anything is charged. A larger one is charged,
	// settled as malformed and answered with 413. Exempt callers have no limit.
	//
	// A negative MaxBody turns that off: the handler reads the body itself. Then a
	// caller who sends slowly holds a reservation for as long as the handler lets
	// him, and keeps everyone Busy who shares a key with him. Subject and Challenge
	// then see a request without a body.
	MaxBody int64
	// BodyTimeout is how long the body may take to arrive: 0 is DefaultBodyTimeout.
	// A later one is answered with 408 and charges nothing. It needs a
	// ResponseWriter that has SetReadDeadline, as those of net/http have, and never
	// extends a shorter ReadTimeout of the http.Server.
	BodyTimeout time.Duration
	// MaxWaiting is how many requests may wait at once for a key that is Busy: 0 is
	// DefaultMaxWaiting, negative none. One network may have a quarter of them, and so
	// may one IPv4 /24 or IPv6 /48. Each holds its body in memory meanwhile.
	MaxWaiting int
	// RateLimitHeaders adds the fields RateLimit-Policy and RateLimit of
	// draft-ietf-httpapi-ratelimit-headers-11 to all answers to attempts and all
	// refusals: what the network rules would still admit of this caller. Rules on
	// other keys are never shown. The refusals are then no longer all alike.
	RateLimitHeaders bool
}

// New returns a Gate, or an error that names the option.
func New(o Options) (*Gate, error) {
	if o.Guard == nil {
		return nil, errors.New("httpguard: Guard must be set")
	}
	if o.BodyTimeout < 0 {
		return nil, fmt.Errorf("httpguard: BodyTimeout must not be negative, got %v", o.BodyTimeout)
	}
	if o.DeviceCookie == "" {
		o.DeviceCookie = DefaultDeviceCookie
	}
	if err := (&http.Cookie{Name: o.DeviceCookie}).Valid(); err != nil {
		return nil, fmt.Errorf("httpguard: DeviceCookie must be the name of a cookie, got %q", o.DeviceCookie)
	}
	if err := o.checkNames(); err != nil {
		return nil, err
	}
	g := &Gate{
		guard: o.Guard, clients: o.Clients, outcome: o.Outcome, custom: o.Refuse, onSettled: o.Settled,
		maxBody: o.MaxBody, bodyTimeout: o.BodyTimeout, rateLimit: o.RateLimitHeaders,
		subject: o.Subject, challenge: o.Challenge, optional: o.OptionalSubject, canonical: o.Canonical,
		devices: o.Devices, cookie: o.DeviceCookie,
	}
	if g.clients == nil {
		g.clients = new(clientip.Resolver)
	}
	if g.canonical == nil {
		g.canonical = guard.Canonical
	}
	switch g.maxBody {
	case 0:
		g.maxBody = DefaultMaxBody
	case math.MaxInt64:
		g.maxBody-- // one byte more is read
	}
	if g.bodyTimeout == 0 {
		g.bodyTimeout = DefaultBodyTimeout
	}
	if o.MaxWaiting == 0 {
		o.MaxWaiting = DefaultMaxWaiting
	}
	g.queue.limit(o.MaxWaiting)
	return g, nil
}

// checkNames checks that whatever a rule charges has a name, so that no rule stands
// there without ever applying. Device rules may: without Devices all callers are
// strangers.
func (o Options) checkNames() error {
	devices := false
	for _, r := range o.Guard.Rules() {
		missing := ""
		switch {
		case (r.Per == guard.Subject || r.Per == guard.Pair) && o.Subject == nil:
			missing = "Subject"
		case r.Per == guard.Challenge && o.Challenge == nil:
			missing = "Challenge"
		}
		if missing != "" {
			return fmt.Errorf("httpguard: %s must be set: rule %q charges it", missing, r.Name)
		}
		devices = devices || r.Per == guard.Device
	}
	switch {
	case o.Devices != nil && !devices:
		return errors.New("httpguard: Devices must not be set: no rule charges a device")
	case o.Devices != nil && o.Subject == nil:
		return errors.New("httpguard: Subject must be set: a device is known for one")
	}
	return nil
}
