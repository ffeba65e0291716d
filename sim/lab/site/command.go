package site

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/cps-gpu/homelab/sim/pvesim"
)

// Run is what the lab's programs have in common: args are a verb and its flags.
func Run(ctx context.Context, args []string, parts Parts) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	defer stop()
	switch strings.Join(args[:min(len(args), 1)], "") {
	case "serve":
		return serve(ctx, args[1:], parts)
	case "prepare":
		return prepare(ctx, args[1:])
	default:
		return errors.New("usage: serve [-dir .lab] [-model eight-a100] [-speed 10] [-guests {}], or prepare [-dir .lab] <NEEDS-AS-JSON")
	}
}

// prepare says on standard output what the lab starts with for the needs on standard input.
func prepare(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("prepare", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for a generated model")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return Prepare(ctx, *dir, os.Stdin, os.Stdout, os.Stderr)
}

// endTime is the time limit of the shutdown; lab:stop waits a little longer. Children end with
// this process in any case.
const endTime = 4 * time.Second

func serve(ctx context.Context, args []string, parts Parts) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	dir := flags.String("dir", labctl.DefaultDir, "the folder for state and logs")
	model := flags.String("model", labctl.DefaultModel, "the hardware: "+strings.Join(pvesim.Presets(), ", ")+", or a YAML file")
	speed := flags.Float64("speed", DefaultSpeed, "how many times faster than real")
	guests := flags.String("guests", "{}", "what is real of VMs and Kubernetes, as JSON")
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
	context.AfterFunc(ctx, func() {
		time.AfterFunc(endTime, func() {
			log.Warn("the shutdown took too long and is cut short")
			os.Exit(1) //nolint:forbidigo // of both programs' main: nothing is left to wait for
		})
	})
	o := Options{Dir: *dir, Model: *model, Speed: *speed, Exe: exe, Log: log, Parts: parts}
	if err := json.Unmarshal([]byte(*guests), &o.Guests); err != nil {
		return fmt.Errorf("-guests: %w", err)
	}
	return Serve(ctx, o)
}
