// Package api is what the admin API says and hears: one type for each body. The server
// is package admin; the commands are its clients, and so may be anybody's scripts.
// openapi.yaml beside this file says the same to other languages.
//
// Times are RFC 3339, in UTC. Durations are seconds. Names of subjects go in, and never
// come out: what is shown of them is a hash.
package api

import "time"

// Where things are. Reading is GET; all else is POST, and DELETE for a network that was
// listed for a time.
const (
	StatusPath   = "/v1/status"
	KeysPath     = "/v1/keys"
	WhyPath      = "/v1/why"
	UnlockPath   = "/v1/unlock"
	ClearPath    = "/v1/clear"
	NetworksPath = "/v1/networks"
	ReloadPath   = "/v1/reload"
	EventsPath   = "/v1/events" // lines of package trace, one for each event
	MetricsPath  = "/metrics"
	OpenAPIPath  = "/openapi.yaml"
)

// Status is the daemon, its doors and its rules, with live figures.
type Status struct {
	Version  string    `json:"version"`
	Now      time.Time `json:"now"`
	Started  time.Time `json:"started"`
	Config   string    `json:"config,omitempty"` // the file; "" if it runs on flags
	Listen   []string  `json:"listen"`
	Upstream []Copy    `json:"upstream"`
	Reloads  Reloads   `json:"reloads"`
	State    *State    `json:"state,omitempty"`
	Store    *Store    `json:"store,omitempty"`
	Doors    []Door    `json:"doors"`
	Guards   []Guard   `json:"guards"`
	Networks []Network `json:"networks"` // exempt or blocked for a time
	// Heaviest are the networks that were refused most of late, the heaviest first.
	Heaviest []Heavy  `json:"heaviest"`
	Warnings []string `json:"warnings"`
}

// Copy is one copy of the application.
type Copy struct {
	URL     string `json:"url"`
	Healthy bool   `json:"healthy"`
}

// Reloads counts since the start.
type Reloads struct {
	Done   uint64     `json:"done"`
	Failed uint64     `json:"failed"`
	Last   *time.Time `json:"last,omitempty"`
	Error  string     `json:"error,omitempty"` // of the last one, if it failed
}

// State is the state file.
type State struct {
	File  string     `json:"file"`
	Saved *time.Time `json:"saved,omitempty"`
	Error string     `json:"error,omitempty"` // of the last write, if it failed
}

// Store is where nodes count together, as this process sees it.
type Store struct {
	Addresses []string   `json:"addresses"`
	Up        bool       `json:"up"`              // it is asked; else doors decide as they are told
	Since     *time.Time `json:"since,omitempty"` // of the last change
	Downs     uint64     `json:"downs"`           // how often it went away
	Calls     uint64     `json:"calls"`
	Errors    uint64     `json:"errors"` // of calls, in time
	Timeouts  uint64     `json:"timeouts"`
	Short     uint64     `json:"short_circuited"` // calls that were not made
	// Error is why a call had no answer, and Fault an answer that was an error, the last time.
	Error   string     `json:"error,omitempty"`
	ErrorAt *time.Time `json:"error_at,omitempty"`
	Fault   string     `json:"fault,omitempty"`
	FaultAt *time.Time `json:"fault_at,omitempty"`
}

// Door counts since the start.
type Door struct {
	Name     string            `json:"name"`
	Routes   []string          `json:"routes"`
	Guard    string            `json:"guard"`    // realm, or the door itself
	Outcomes map[string]uint64 `json:"outcomes"` // by succeeded, failed, malformed, void
	Exempt   uint64            `json:"exempt"`
	Refused  map[string]uint64 `json:"refused"` // by reason
	Lockouts uint64            `json:"lockouts"`
	InFlight int               `json:"in_flight"`
}

// Guard is the rules of one door or realm.
type Guard struct {
	Name  string   `json:"name"`
	Doors []string `json:"doors"`
	Rules []Rule   `json:"rules"`
	Alone *Alone   `json:"without_store,omitempty"`
}

// Alone counts attempts that this process decided without the store.
type Alone struct {
	Mode        string `json:"when_store_is_away"` // local, closed, open
	Hot         uint64 `json:"hot_refusals"`       // known to be locked
	Local       uint64 `json:"local_decisions"`    // by this process's own counts
	FailOpen    uint64 `json:"fail_open"`          // let in undecided
	Unavailable uint64 `json:"unavailable"`        // refused undecided
}

// Rule counts since the start, but for Tracked and Pending, which are now.
type Rule struct {
	Name            string `json:"name"`
	Per             string `json:"per"`    // as a configuration says it: network6/48
	Action          string `json:"action"` // refuse, step_up, shadow
	Policy          string `json:"policy"` // in words: lockout 5 in 1m, then 1m to 1h
	Refused         uint64 `json:"refused"`
	Lockouts        uint64 `json:"lockouts"`
	Tracked         int    `json:"tracked"`
	Capacity        int    `json:"capacity"`
	Pending         int    `json:"pending"`
	OverflowCharged uint64 `json:"overflow_charged"`
	OverflowRefused uint64 `json:"overflow_refused"`
	Reclaimed       uint64 `json:"reclaimed"`
	PoolFull        uint64 `json:"pool_full"`
}

// Heavy is one network among those that were refused most. Refused is an upper bound, too
// high by at most Error.
type Heavy struct {
	Client  string `json:"client"`
	Refused uint64 `json:"refused"`
	Error   uint64 `json:"error"`
}

// Page is one page of keys. Next goes into the next question, "" after the last page. A
// page may be empty and not the last.
type Page struct {
	Keys []Key  `json:"keys"`
	Next string `json:"next"`
}

// Key is one entry of a rule.
type Key struct {
	Guard       string     `json:"guard"`
	Rule        string     `json:"rule"`
	Key         string     `json:"key"` // a network, or the hash of a name or pair; "overflow"
	Overflow    bool       `json:"overflow,omitempty"`
	Count       int        `json:"count"` // failures, refusals or requests that count now
	Pending     int        `json:"pending"`
	LockedUntil *time.Time `json:"locked_until,omitempty"`
	ForgottenAt *time.Time `json:"forgotten_at,omitempty"`
}

// Who is whom a question or a change is about: an address, a subject by its name, both
// (then also the pair of them), or a key as Key.Key has it.
type Who struct {
	Address string `json:"address,omitempty"`
	Subject string `json:"subject,omitempty"`
	Key     string `json:"key,omitempty"`
}

// Why is what is known of a caller or a subject.
type Why struct {
	Who Who `json:"who"`
	// Hash is the subject as it is in keys and events, "" if none was asked for.
	Hash   string  `json:"hash,omitempty"`
	Guards []Found `json:"guards"`
	// Recent are the last events about it that are still remembered, lines of package
	// trace, oldest first: they say how the address was found.
	Recent []any `json:"recent"`
}

// Found is what one guard says.
type Found struct {
	Guard   string    `json:"guard"`
	Doors   []string  `json:"doors"`
	Allowed bool      `json:"allowed"` // whether an attempt would be admitted now
	Exempt  bool      `json:"exempt"`
	Blocked bool      `json:"blocked"`
	Rule    string    `json:"rule,omitempty"` // that refuses with the longest wait
	Reason  string    `json:"reason,omitempty"`
	Wait    float64   `json:"retry_after,omitempty"`
	Rules   []Finding `json:"rules"`
}

// Finding is what one rule says.
type Finding struct {
	Key
	Per     string  `json:"per"`
	Action  string  `json:"action"`
	Policy  string  `json:"policy"`
	Tracked bool    `json:"tracked"`
	Allowed bool    `json:"allowed"`
	Reason  string  `json:"reason,omitempty"`
	Wait    float64 `json:"retry_after,omitempty"`
	Left    int     `json:"remaining"`
}

// By is who changes something, and why. Both are asked for, and end in the audit log.
type By struct {
	Actor  string `json:"actor"`
	Reason string `json:"reason"`
}

// Unlock forgets what was counted about Who: in one rule, in one guard, or everywhere.
type Unlock struct {
	Who
	Guard string `json:"guard,omitempty"`
	Rule  string `json:"rule,omitempty"`
	By
}

// Unlocked is what that did: the entries that were there before.
type Unlocked struct {
	Keys []Key `json:"keys"`
}

// Clear forgets all that a guard counted, or one rule of it.
type Clear struct {
	Guard string `json:"guard"`
	Rule  string `json:"rule,omitempty"`
	By
}

// List exempts or blocks a network for a time: in one guard, or in all.
type List struct {
	Network string  `json:"network"` // an address or a prefix
	Action  string  `json:"action"`  // exempt or block
	Guard   string  `json:"guard,omitempty"`
	For     float64 `json:"for"` // 1 second to 366 days
	By
}

// Network is a network that is exempt or blocked until then. By is empty in a status that was
// asked for without a token or certificate, and not by the socket.
type Network struct {
	ID      string    `json:"id"`
	Network string    `json:"network"`
	Action  string    `json:"action"`
	Guard   string    `json:"guard,omitempty"` // "" is all
	Until   time.Time `json:"until"`
	By
}

// Networks are all of them.
type Networks struct {
	Networks []Network `json:"networks"`
}

// Reload reads the configuration again.
type Reload struct {
	By
}

// Problem is the body of every answer that is not 2xx.
type Problem struct {
	Error  string   `json:"error"`
	Errors []string `json:"errors,omitempty"` // one by one, of a configuration
}
