package admin

import (
	"net/http"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/api"
	"github.com/doorward/doorward/cmd/doorward/internal/networks"
)

// list exempts or blocks a network for a time.
func (s *Server) list(r *http.Request) (any, error) {
	var in api.List
	if err := read(r, &in); err != nil {
		return nil, err
	}
	if err := checkBy(in.By); err != nil {
		return nil, err
	}
	n, err := parseNetwork(in.Network)
	if err != nil {
		return nil, bad("network must be an address or a network such as 192.0.2.7 or 2001:db8::/48, got %s", cut(in.Network))
	}
	in.Network = n.String()
	if in.Action != "exempt" && in.Action != "block" {
		return nil, bad("action must be exempt or block, got %s", cut(in.Action))
	}
	if most := networks.Longest.Seconds(); !(in.For >= 1 && in.For <= most) {
		return nil, bad("for must be 1 to %.0f seconds, got %g", most, in.For)
	}
	if in.Guard != "" {
		if _, err := s.seats(in.Guard, ""); err != nil {
			return nil, err
		}
	}
	return s.daemon.List(in, time.Now())
}

// unlist ends that before its time.
func (s *Server) unlist(r *http.Request) (any, error) {
	var by api.By
	if err := read(r, &by); err != nil {
		return nil, err
	}
	if err := checkBy(by); err != nil {
		return nil, err
	}
	return nil, s.daemon.Unlist(networkID(r.URL.Path), by, time.Now())
}
