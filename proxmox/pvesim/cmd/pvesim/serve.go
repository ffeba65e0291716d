package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/cps-gpu/homelab/proxmox/pvesim"
)

// serving is what the flags ask for.
type serving struct {
	listen, model, speed, dir, guests, requests string
	faults                                      faultFlags
	log                                         bool
}

// faultFlags are -fault, as often as it is given.
type faultFlags []pvesim.Rule

func (f *faultFlags) String() string { return "" }

func (f *faultFlags) Set(text string) error {
	r, err := pvesim.ParseRule(text)
	if err == nil {
		*f = append(*f, r)
	}
	return err
}

// instant is how much faster than life the world is when it is to take no time.
const instant = 1e4

// pace reads -speed.
func pace(text string) (float64, error) {
	switch text {
	case "real":
		return 1, nil
	case "0", "instant":
		return instant, nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n <= 0 || n > instant {
		return 0, usageError{fmt.Errorf("-speed %s: write real, 0 for instant, or how many times faster than life, up to %g", text, instant)}
	}
	return n, nil
}

func (p *program) serve(ctx context.Context, args []string) error {
	var o serving
	f := p.flags("serve", "usage: pvesim [flags] | pvesim model NAME | pvesim check FILE | pvesim record [flags]\n\n"+
		"Serves the API of a simulated Proxmox VE cluster until Ctrl-C. What is in it ends with it.")
	f.StringVar(&o.listen, "listen", "127.0.0.1:8006", "address and port; a port of 0 is any that is free")
	f.StringVar(&o.model, "model", "eight-a100", "the hardware: one-gpu, two-hosts, eight-a100, or a YAML file")
	f.StringVar(&o.speed, "speed", "10", "times faster than life; real, or 0 for no waiting at all")
	f.StringVar(&o.dir, "dir", "", "folder for token, password and certificate; a new one that goes away at the end when empty")
	f.StringVar(&o.guests, "guests", "", "address for a SOCKS5 proxy that leads to the guests, as in 127.0.0.1:1080; none when empty")
	f.Var(&o.faults, "fault", "what goes wrong, as often as needed: 'METHOD PATH EFFECT…', as in\n'POST /nodes/*/qemu/*/clone 500 \"got timeout\" times=2'; see pvesim.ParseRule")
	f.StringVar(&o.requests, "requests", "", "file for what was asked, without secrets, a line of JSON each, written at the end")
	f.BoolVar(&o.log, "log", false, "log requests and tasks")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	speed, err := pace(o.speed)
	if err != nil {
		return err
	}
	model, err := pvesim.LoadModel(o.model)
	if err != nil {
		return err
	}
	folder, err := makeFolder(o.dir)
	if err != nil {
		return err
	}
	defer folder.close()
	if err := folder.secrets(&model); err != nil {
		return err
	}
	options := pvesim.Options{Speed: speed, Lean: o.requests == ""}
	if o.log {
		options.Log = slog.New(slog.NewTextHandler(p.talk, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	sim := pvesim.New(model, options)
	defer sim.Close()
	for _, r := range o.faults {
		sim.Fail(r)
	}
	err = p.listen(ctx, o, sim, folder, summary(model))
	if o.requests != "" {
		err = errors.Join(err, writeRequests(o.requests, sim.Requests()))
	}
	return err
}

// writeRequests writes down what clients asked.
func writeRequests(file string, all []pvesim.Request) error {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for _, r := range all {
		line := struct {
			Method string     `json:"method"`
			Path   string     `json:"path"`
			Params url.Values `json:"params,omitempty"`
			User   string     `json:"user"`
			Status int        `json:"status"`
			Error  string     `json:"error,omitempty"`
		}{r.Method, r.Path, r.Params, r.User, r.Status, r.Message}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return os.WriteFile(file, out.Bytes(), 0o600)
}

// listen serves until ctx ends.
func (p *program) listen(ctx context.Context, o serving, sim *pvesim.Sim, folder *folder, what string) error {
	cert, fingerprint, err := sim.TLS()
	if err != nil {
		return err
	}
	if err := folder.certificate(cert.Certificate[0]); err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if host, _, _ := net.SplitHostPort(l.Addr().String()); !net.ParseIP(host).IsLoopback() {
		p.say("warning: %s can be reached by other machines, and whoever has the token can use it", l.Addr())
	}
	if o.guests != "" {
		proxy, err := new(net.ListenConfig).Listen(ctx, "tcp", o.guests)
		if err != nil {
			return errors.Join(fmt.Errorf("-guests: %w", err), l.Close())
		}
		ctx, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() { defer close(done); serveSOCKS(ctx, proxy, sim.Network().Dial) }()
		defer func() { end(); <-done }()
		folder.proxy = "socks5://" + proxy.Addr().String()
	}
	folder.endpoint, folder.fingerprint = "https://"+l.Addr().String(), fingerprint
	if err := folder.environment(); err != nil {
		return err
	}
	p.say("A simulated Proxmox VE (%s), nothing of it is real. Ctrl-C ends it.", what)
	if _, err := fmt.Fprint(p.out, folder.String()); err != nil {
		return err
	}
	return sim.Serve(ctx, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
}
