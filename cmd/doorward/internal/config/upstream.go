package config

import (
	"net/url"
	"time"

	upstreams "github.com/doorward/doorward/cmd/doorward/internal/upstream"
)

// What holds for upstreams when nothing is said.
const (
	DefaultReuseIdle     = upstreams.DefaultIdle
	DefaultHealthEvery   = upstreams.DefaultEvery
	DefaultHealthTimeout = upstreams.DefaultTimeout
)

// upstreams returns the copies of the application, given as one or as a list.
func (s *source) upstreams(f *file) (list []*url.URL) {
	if s.has("upstreams") {
		if s.has("upstream") {
			s.fail("upstreams", "must not be there with upstream")
		}
		if len(f.Upstreams) == 0 {
			s.fail("upstreams", "must not be empty")
		}
		taken := map[string]int{}
		for i, u := range f.Upstreams {
			if u.URL == nil { // reported
				continue
			}
			if first, ok := taken[u.String()]; ok {
				s.fail(index("upstreams", i), "must be there once, %s has it too", index("upstreams", first))
			}
			taken[u.String()] = i
			list = append(list, u.URL)
		}
		return list
	}
	if !s.has("upstream") {
		s.fail("upstream", "must be a URL such as http://127.0.0.1:3000")
	}
	if f.Upstream.URL != nil {
		list = append(list, f.Upstream.URL)
	}
	return list
}

func (s *source) health(f *healthFile) *upstreams.Health {
	if f == nil {
		return nil
	}
	if !upstreams.IsPath(f.Path) && !s.failed["health.path"] {
		s.fail("health.path", "must be a path such as /healthz")
	}
	or := func(n positive, otherwise int) int {
		if n == 0 {
			return otherwise
		}
		return int(n)
	}
	h := &upstreams.Health{
		Path:           f.Path,
		Every:          orInterval(f.Every, DefaultHealthEvery),
		Timeout:        orInterval(f.Timeout, DefaultHealthTimeout),
		Statuses:       f.Statuses.Statuses,
		UnhealthyAfter: or(f.UnhealthyAfter, upstreams.DefaultAfter),
		HealthyAfter:   or(f.HealthyAfter, upstreams.DefaultAfter),
	}
	if len(h.Statuses) == 0 {
		h.Statuses = upstreams.DefaultStatuses()
	}
	if h.Timeout > h.Every {
		s.fail("health.timeout", "must not be longer than every (%s), got %s", ShowDuration(h.Every), ShowDuration(h.Timeout))
	}
	return h
}

func (s *source) reuse(f *reuseFile) upstreams.Reuse {
	if f.Spare > upstreams.MaxSpare {
		s.fail("reuse.spare", "must be 1 to %d, got %d", upstreams.MaxSpare, f.Spare)
	}
	if f.Spare > 0 && f.ReadsBodies {
		s.fail("reuse.spare", "must not be there with reads_bodies: connections are kept then")
	}
	return upstreams.Reuse{Idle: orInterval(f.Idle, DefaultReuseIdle), ReadsBodies: f.ReadsBodies, Spare: int(f.Spare)}
}

func orInterval(d interval, otherwise time.Duration) time.Duration {
	if d != 0 {
		return time.Duration(d)
	}
	return otherwise
}
