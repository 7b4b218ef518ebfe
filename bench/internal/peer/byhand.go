package peer

import (
	"sync"
	"time"
)

// Map is what people write by hand: a map, a mutex, and a fixed window for each client
// that begins with its first request.
type Map struct {
	mu      sync.Mutex
	clients map[string]count
	limit   int
	window  time.Duration
	bound   int // 0 is none
}

type count struct {
	n   int
	end time.Time
}

// NewMap returns a Map that makes room by a scan once it holds bound clients: of what
// has expired, or of the client whose window ends first. A bound of 0 is none.
func NewMap(limit int, window time.Duration, bound int) *Map {
	return &Map{clients: make(map[string]count), limit: limit, window: window, bound: bound}
}

// Allow counts a request of key if it is allowed.
func (m *Map) Allow(key string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.clients[key]
	if !ok || !now.Before(c.end) {
		if !ok && m.bound > 0 && len(m.clients) >= m.bound {
			m.scan(now)
		}
		c = count{end: now.Add(m.window)}
	}
	if c.n >= m.limit {
		return false
	}
	c.n++
	m.clients[key] = c
	return true
}

// TakeBack takes a request of key back.
func (m *Map) TakeBack(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clients[key]; ok {
		c.n--
		m.clients[key] = c
	}
}

func (m *Map) scan(now time.Time) {
	var first string
	var end time.Time
	full := true
	for key, c := range m.clients {
		if !now.Before(c.end) {
			delete(m.clients, key)
			full = false
		} else if end.IsZero() || c.end.Before(end) {
			first, end = key, c.end
		}
	}
	if full {
		delete(m.clients, first)
	}
}

// mapLimiter reads the clock for a Map.
type mapLimiter struct {
	texts
	clock
	m *Map
}

func newMap(c Config) Limiter     { return &mapLimiter{m: NewMap(c.Limit, c.Window, 0)} }
func newScanMap(c Config) Limiter { return &mapLimiter{m: NewMap(c.Limit, c.Window, c.Keys)} }

func (l *mapLimiter) Load(t Trace)              { l.load(t, "") }
func (l *mapLimiter) Decide(worker, i int) bool { return l.m.Allow(l.at(i), l.now()) }
