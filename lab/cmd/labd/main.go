// Labd is the lab: `labd serve` runs it, and starts this same program again as each
// of the Kubernetes components. Nobody needs to call it by hand: lab:start does.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/lab/component"
	"github.com/cps-gpu/homelab/lab/site"
	"github.com/cps-gpu/homelab/sim/pvesim"
)

func main() {
	ctx := context.Background()
	if status, ok := component.Run(ctx, os.Args[1:]); ok {
		os.Exit(status)
	}
	verb := strings.Join(os.Args[1:min(len(os.Args), 2)], "")
	var err error
	switch verb {
	case "serve":
		err = serve(ctx, os.Args[2:])
	case "prepare":
		err = prepare(ctx, os.Args[2:])
	case "scratch":
		err = scratch(ctx, os.Args[2:], os.Stdin, os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, "usage: labd serve [-dir .lab] [-model eight-a100] [-speed 10]\n       labd prepare [-dir .lab] <NEEDS-AS-JSON\n       labd scratch [-dir .lab] <SNAPSHOT-AS-JSON\n       labd kubectl …")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "labd:", err)
		os.Exit(1)
	}
}

// prepare says on standard output what the lab starts with for the needs on standard input.
func prepare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for a generated model")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	return site.Prepare(ctx, *dir, os.Stdin, os.Stdout, os.Stderr)
}

// endTime is the time limit of the shutdown; lab:stop waits a little longer. Children end with
// this process in any case.
const endTime = 4 * time.Second

func serve(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for state and logs")
	model := flags.String("model", labctl.DefaultModel, "the hardware: "+strings.Join(pvesim.Presets(), ", ")+", or a YAML file")
	speed := flags.Float64("speed", site.DefaultSpeed, "how many times faster than real")
	guests := flags.String("guests", "{}", "real VMs: image, network, gateway and internet as JSON")
	verbose := flags.Bool("v", false, "log each request")
	if err := flags.Parse(args); err != nil {
		return err
	}
	level := slog.LevelInfo
	if *verbose {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	klog.SetSlogLogger(log) // client-go's own messages, in our log
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	if *dir, err = filepath.Abs(*dir); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.AfterFunc(endTime, func() {
			log.Warn("the shutdown took too long and is cut short")
			os.Exit(1)
		})
	})
	o := site.Options{Dir: *dir, Model: *model, Speed: *speed, Exe: exe, Log: log}
	if err := json.Unmarshal([]byte(*guests), &o.Guests); err != nil {
		return fmt.Errorf("-guests: %w", err)
	}
	return site.Serve(ctx, o)
}
