package reader

// A held is what a reader knows of a log as a whole, and what waits for it.
//
// Some lines are attempts only in logs, or on hosts, that have no better ones. After a
// survey all is known beforehand. Without one, such a Record waits, with all that
// follow it, until a better line comes (it is dropped), too many wait, or the log ends
// (it is emitted). So the order stays that of the log, and memory has a bound.
type held struct {
	better    bool            // the log has a better line
	hosts     map[string]bool // hosts that have a better line (true), or none so far (false)
	surveying bool            // nothing is emitted
	surveyed  bool            // what is not known by now never will be
	queue     []waiting
	head      int // of queue
}

// A waiting Record, and what would drop it.
type waiting struct {
	rec  Record
	host string
	when condition
}

// A condition says in which logs a line is an attempt.
type condition uint8

const (
	always     condition = iota
	ifLog                // if the log has no better line
	ifHost               // if its host has none
	unlessHost           // if its host has one
)

const (
	maxWaiting = 1 << 16
	maxHosts   = 1 << 14
)

// saw notes that a host has a better line.
func (h *held) saw(host []byte) {
	if better, ok := h.hosts[string(host)]; better || !ok && len(h.hosts) >= maxHosts {
		return
	}
	if h.hosts == nil {
		h.hosts = map[string]bool{}
	}
	h.hosts[string(host)] = true
}

// share tells all of hosts that have a better line in any.
func share(all []*held) {
	better := map[string]bool{}
	for _, h := range all {
		for host, has := range h.hosts {
			if has {
				better[host] = true
			}
		}
	}
	for _, h := range all {
		for host := range better {
			h.saw([]byte(host))
		}
	}
}

// known reports what is known of a condition: that it is met, or that it is not.
func (h *held) known(c condition, host []byte) (met, known bool) {
	switch c {
	case always:
		return true, true
	case ifLog:
		return !h.better, h.better || h.surveyed
	}
	better, known := h.hosts[string(host)]
	if !known && len(h.hosts) >= maxHosts {
		better, known = h.better, true // too many hosts to tell them apart
	}
	return better == (c == unlessHost), known || h.surveyed
}

// put emits a Record that is one if c is met, now or when that is known.
func (h *held) put(rec *Record, c condition, host []byte, emit func(*Record)) Skip {
	met, known := h.known(c, host)
	if known && !met {
		return NotAttempt
	}
	if h.surveying {
		return Read
	}
	h.drain(emit)
	if known && h.head == len(h.queue) {
		emit(rec)
		return Read
	}
	w := waiting{*rec, string(host), c}
	w.rec.Subject = append([]byte(nil), rec.Subject...)
	h.queue = append(h.queue, w)
	if len(h.queue)-h.head > maxWaiting {
		h.decide(h.queue[h.head])
		h.drain(emit)
	}
	return Read
}

// decide ends the wait for a better line: until one comes, there is none.
func (h *held) decide(w waiting) {
	if w.when == ifLog {
		h.surveyed = true
		return
	}
	if h.hosts == nil {
		h.hosts = map[string]bool{}
	}
	h.hosts[w.host] = false
}

// drain emits from the head of the queue what is decided.
func (h *held) drain(emit func(*Record)) {
	for h.head < len(h.queue) {
		w := &h.queue[h.head]
		met, known := h.known(w.when, []byte(w.host))
		if !known {
			break
		}
		if met {
			emit(&w.rec)
		}
		*w = waiting{}
		h.head++
	}
	if h.head == len(h.queue) {
		h.queue, h.head = h.queue[:0], 0
	} else if h.head > maxWaiting {
		h.queue = append(h.queue[:0], h.queue[h.head:]...)
		h.head = 0
	}
}

// close emits what still waits: the better lines did not come.
func (h *held) close(emit func(*Record)) {
	h.surveyed = true
	h.drain(emit)
}
