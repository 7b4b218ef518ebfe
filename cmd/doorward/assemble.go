package main

import (
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/doorward/doorward/clientip"
	"github.com/doorward/doorward/cmd/doorward/internal/config"
	"github.com/doorward/doorward/cmd/doorward/internal/proxy"
	"github.com/doorward/doorward/cmd/doorward/internal/subject"
	"github.com/doorward/doorward/device"
	"github.com/doorward/doorward/door"
	"github.com/doorward/doorward/guard"
	"github.com/doorward/doorward/outcome"
)

// assemble builds what the proxy is made of, with guards that have counted nothing.
func assemble(c config.Config, log *slog.Logger) (proxy.Config, error) {
	pc, _, err := assembleWith(c, log, func(_ string, c guard.Config) (*guard.Guard, error) { return guard.New(c) })
	return pc, err
}

// assembleWith has guards made elsewhere, each once, and returns them by name.
func assembleWith(c config.Config, log *slog.Logger, make func(name string, c guard.Config) (*guard.Guard, error)) (proxy.Config, map[string]*guard.Guard, error) {
	pc := proxy.Config{
		Upstreams:         c.Upstreams,
		Health:            c.Health,
		Reuse:             c.Reuse,
		ClientsConfigured: c.ClientsConfigured,
		Log:               log,
		Timeouts:          proxy.Timeouts(c.Timeouts),
		Limits:            proxy.Limits(c.Limits),
	}
	var err error
	if pc.Clients, err = clientip.New(c.Clients); err != nil {
		return pc, nil, err
	}
	if trusted := c.Clients.Trusted; len(trusted) > 0 || c.Clients.Hops > 0 {
		pc.Proxies = func(from netip.Addr) bool { return c.Clients.Hops > 0 || within(trusted, from) }
	}
	guards := map[string]*guard.Guard{} // doors of one realm share theirs
	for _, d := range c.Doors {
		if guards[d.GuardName()] == nil {
			if guards[d.GuardName()], err = make(d.GuardName(), d.Guard); err != nil {
				return pc, nil, fmt.Errorf("door %q: %w", d.Name, err)
			}
		}
		built, err := assembleDoor(d, c.Devices, guards[d.GuardName()])
		if err != nil {
			return pc, nil, fmt.Errorf("door %q: %w", d.Name, err)
		}
		pc.Doors = append(pc.Doors, built)
	}
	return pc, guards, nil
}

func assembleDoor(d config.Door, devices *config.Devices, g *guard.Guard) (built proxy.Door, err error) {
	built = proxy.Door{Guard: g, Name: d.Name, MaxBody: d.MaxBody, MaxInFlight: d.MaxInFlight, OptionalSubject: d.SubjectOptional}
	built.PathNames = d.Subject.Path != "" || d.Challenge.Path != ""
	if built.Match, err = door.New(d.Door); err != nil {
		return built, err
	}
	if built.Outcome, err = outcome.New(d.Outcome); err != nil {
		return built, err
	}
	if built.Subject, err = extractor(d.Subject); err != nil {
		return built, err
	}
	if built.Challenge, err = extractor(d.Challenge); err != nil {
		return built, err
	}
	if devices == nil || !config.HasDevices(built.Guard.Rules()) {
		return built, nil
	}
	built.DeviceCookie = devices.Cookie
	built.Devices, err = device.New(device.Config{Guard: d.GuardName(), Keys: devices.Keys, TTL: devices.TTL})
	return built, err
}

// extractor returns what reads names from requests, nil if nothing does.
func extractor(from subject.Source) (*subject.Extractor, error) {
	if from == (subject.Source{}) {
		return nil, nil
	}
	return subject.New(from)
}
