package config

import (
	"io/fs"
	"path/filepath"
)

// Audit says what is written down about attempts and changes, and where.
type Audit struct {
	File     string
	Mode     fs.FileMode
	Key      Keys // one, or none: then hashes of names mean nothing after a restart
	Attempts bool
	V4, V6   int // bits of an address that are written
	Request  bool
	// Burst and PerSecond are how many lines of one kind one door may have at once, and in
	// the long run.
	Burst, PerSecond int
	MaxSize          int64
	Keep             int
}

const (
	minAuditSize  = 1 << 20 // many lines of any length
	maxAuditSize  = 1 << 40
	maxAuditKeep  = 100
	maxAuditRate  = 10_000
	maxAuditBurst = 100_000
)

func (s *source) audit(f *auditFile, state *State) *Audit {
	if f == nil {
		return nil
	}
	const path = "audit"
	a := &Audit{
		Mode:      fs.FileMode(f.Mode),
		Attempts:  f.Attempts,
		V4:        s.within(path+".redact.ipv4", f.Redact.IPv4, 32, 32),
		V6:        s.within(path+".redact.ipv6", f.Redact.IPv6, 64, 64),
		Request:   f.Request == nil || *f.Request,
		Burst:     s.within(path+".burst", f.Burst, DefaultAuditBurst, maxAuditBurst),
		PerSecond: s.within(path+".per_second", f.PerSecond, DefaultAuditPerSecond, maxAuditRate),
		MaxSize:   s.size(path+".max_size", f.MaxSize, DefaultAuditSize, minAuditSize, maxAuditSize),
		Keep:      s.within(path+".keep", f.Keep, DefaultAuditKeep, maxAuditKeep),
	}
	if a.Mode == 0 {
		a.Mode = DefaultAuditMode
	}
	if f.File == "" {
		s.fail(path+".file", "must be the file that lines are written to, such as audit.log")
	} else {
		a.File = s.beside(f.File)
		if err := writable(a.File); err != nil {
			s.fail(path+".file", "%v, got %s", err, clip(f.File))
		}
		if state != nil && filepath.Clean(a.File) == filepath.Clean(state.File) {
			s.fail(path+".file", "must be another file than state.file, got %s", clip(f.File))
		}
	}
	if f.KeyFile != "" {
		a.Key = s.key(path, f.KeyFile, a.File)
	}
	return a
}
