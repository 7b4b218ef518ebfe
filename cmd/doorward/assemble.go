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

// assemble builds what the proxy is made of.
func assemble(c config.Config, log *slog.Logger) (proxy.Config, error) {
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
		return pc, err
	}
	if trusted := c.Clients.Trusted; len(trusted) > 0 || c.Clients.Hops > 0 {
		pc.Proxies = func(from netip.Addr) bool { return c.Clients.Hops > 0 || within(trusted, from) }
	}
	guards := map[string]*guard.Guard{} // doors of one realm share theirs
	for _, d := range c.Doors {
		built, err := assembleDoor(d, c.Devices, guards)
		if err != nil {
			return pc, fmt.Errorf("door %q: %w", d.Name, err)
		}
		pc.Doors = append(pc.Doors, built)
	}
	return pc, nil
}

func assembleDoor(d config.Door, devices *config.Devices, guards map[string]*guard.Guard) (built proxy.Door, err error) {
	built = proxy.Door{Name: d.Name, MaxBody: d.MaxBody, MaxInFlight: d.MaxInFlight, OptionalSubject: d.SubjectOptional}
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
	if built.Guard = guards[d.GuardName()]; built.Guard == nil {
		if built.Guard, err = guard.New(d.Guard); err != nil {
			return built, err
		}
		guards[d.GuardName()] = built.Guard
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
