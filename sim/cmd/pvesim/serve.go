package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// serving has the flags of the server.
type serving struct {
	listen, model, speed, dir, guests, requests string
	ssh, internet                               string
	log, version                                bool
}

// instant is the speed of a world that takes no time.
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
		return 0, usageError{fmt.Errorf("-speed %s: write real, 0 for instant, or how many times faster than real, up to %g", text, instant)}
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
	f.StringVar(&o.requests, "requests", "", "file for what was asked, without secrets, a line of JSON each, as it is answered")
	f.StringVar(&o.ssh, "ssh", "", "address for root's SSH to the first node, as in 127.0.0.1:2222; none when empty")
	f.StringVar(&o.internet, "internet", "", "folder of files that downloads find by their last name, whatever the URL, before the simulated internet")
	f.BoolVar(&o.version, "version", false, "print this program's version, and which Proxmox VE it plays")
	f.BoolVar(&o.log, "log", false, "log requests and tasks")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if o.version {
		return p.version()
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
	w, err := p.makeWorld(o, model, speed)
	if err != nil {
		return err
	}
	defer w.close()
	return p.listen(ctx, o, w, folder, summary(model))
}

// listen serves until ctx ends.
func (p *program) listen(ctx context.Context, o serving, w *world, folder *folder, what string) error {
	cert, fingerprint, err := w.sim.TLS()
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
		p.say("warning: %s can be reached by other machines, and anyone with the token can use it", l.Addr())
	}
	ways := &ways{}
	defer ways.close()
	if err := open(ctx, o, w, folder, ways); err != nil {
		return errors.Join(err, l.Close())
	}
	folder.endpoint, folder.fingerprint = "https://"+l.Addr().String(), fingerprint
	if err := folder.environment(); err != nil {
		return err
	}
	p.say("A simulated Proxmox VE (%s), nothing of it is real. Ctrl-C ends it.", what)
	if _, err := fmt.Fprint(p.out, folder.String()); err != nil {
		return err
	}
	return w.serve(ctx, tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}))
}
