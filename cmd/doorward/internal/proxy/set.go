package proxy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/httpguard"
)

// A set is what a reload puts in the place of another: the doors, and all that is asked
// once for each request. It does not change. A request keeps the one that it began with.
type set struct {
	config  Config
	doors   []guarded
	matches []*door.Door // of doors
}

// newSet builds the doors of c, which is complete.
func (p *Proxy) newSet(c Config) (*set, error) {
	s := &set{config: c}
	attempts := p.reverse(attempts{p.pool, c.Timeouts.Response})
	for i := range c.Doors {
		d := &c.Doors[i]
		maxBody := d.MaxBody
		if maxBody == 0 {
			maxBody = c.Limits.BodyBytes
		}
		gate, err := httpguard.New(httpguard.Options{
			Guard:       d.Guard,
			Clients:     c.Clients,
			Outcome:     d.Outcome,
			Refuse:      p.refuse,
			Settled:     p.settled,
			MaxBody:     maxBody,
			BodyTimeout: c.Timeouts.Body,

			Subject:         nameOf(d.Subject),
			Challenge:       challengeOf(d.Challenge),
			OptionalSubject: d.OptionalSubject,
			Canonical:       subject.Canonical,
			Devices:         d.Devices,
			DeviceCookie:    d.DeviceCookie,
		})
		if err != nil {
			return nil, fmt.Errorf("proxy: door %q: %w", d.Name, err)
		}
		s.matches = append(s.matches, d.Match)
		s.doors = append(s.doors, guarded{Door: d, handler: gate.Handler(attempts), inFlight: newInFlight(d.most(c))})
	}
	return s, nil
}

// most is how many requests may be at d at one time.
func (d *Door) most(c Config) int {
	if d.MaxInFlight != 0 {
		return d.MaxInFlight
	}
	return c.Limits.InFlight
}

// Check returns the error that Reload would.
func (p *Proxy) Check(c Config) error {
	_, err := p.prepare(c)
	return err
}

// Reload takes from c the doors, Clients, Proxies, and the timeouts and limits of requests
// at doors, for requests that begin from now on. Those in flight end as they began.
// Connections, those to the application, and how many requests are at a door live on. An
// error names the field that is wrong, or that cannot change, and changes nothing.
func (p *Proxy) Reload(c Config) error {
	next, err := p.prepare(c)
	if err != nil {
		return err
	}
	old := p.set.Load()
	for i := range next.doors {
		d := &next.doors[i]
		if same := slices.IndexFunc(old.doors, func(o guarded) bool { return o.Name == d.Name }); same >= 0 {
			d.inFlight = old.doors[same].inFlight
			d.inFlight.Limit(inFlight(d.most(next.config)))
		}
	}
	p.lines.hide(next.config.Doors)
	p.set.Store(next)
	return nil
}

func (p *Proxy) prepare(c Config) (*set, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	now, then := c.Timeouts, p.config.Timeouts
	if now.ReadHeader != then.ReadHeader || now.Write != then.Write || now.Idle != then.Idle || now.Shutdown != then.Shutdown ||
		DialTime(now.Response, len(c.Upstreams)) != DialTime(then.Response, len(p.config.Upstreams)) {
		return nil, errors.New("proxy: Timeouts.ReadHeader, Write, Idle and Shutdown, and DialTime, cannot change in a reload")
	}
	return p.newSet(c)
}
