package programs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// Exit statuses of curl, from its manual page.
const (
	curlProtocol = 1
	curlResolve  = 6
	curlHTTP     = 22
	curlWrite    = 23
)

// runCurl is curl, one URL at a time.
func runCurl(ctx context.Context, p *machine.Proc) int {
	opts, urls := getopt.Parse(p.Args[1:], "o", "output", "proto", "proto-redir", "retry", "retry-delay", "retry-max-time", "connect-timeout",
		"max-time", "m", "w", "H", "A", "header", "cacert", "x", "X", "T", "C", "continue-at", "speed-limit", "speed-time", "D", "dump-header")
	silent := getopt.Has(opts, "s", "silent")
	complain := func(code int, format string, args ...any) int {
		if !silent || getopt.Has(opts, "S", "show-error") {
			fmt.Fprintf(p.Stderr, p.Name()+": (%d) %s\n", code, fmt.Sprintf(format, args...))
		}
		return code
	}
	for _, url := range urls {
		if proto := getopt.Last(opts, "proto"); proto == "=https" && !strings.HasPrefix(url, "https://") {
			return complain(curlProtocol, "Protocol %q disabled", url)
		}
		data, err := p.Download(ctx, url)
		switch {
		case errors.Is(err, machine.ErrNoInternet):
			return complain(curlResolve, "Could not resolve host: %s", url)
		case errors.Is(err, internet.ErrNotFound) && getopt.Has(opts, "f", "fail", "fail-with-body"):
			return complain(curlHTTP, "The requested URL returned error: 404")
		case errors.Is(err, internet.ErrNotFound):
			data = []byte("404 Not Found\n") // without --fail, curl takes it for the file
		case err != nil:
			return complain(7, "%v", err)
		}
		const headers = "HTTP/1.1 200 OK\r\n\r\n"
		if getopt.Has(opts, "I", "head") {
			p.Printf(headers)
			continue
		}
		if to := getopt.Last(opts, "D", "dump-header"); to != "" {
			if err := p.FS.WriteFile(p.Abs(to), []byte(headers), 0o666); err != nil {
				return complain(curlWrite, "%s", disk.Strerror(err))
			}
		}
		to := getopt.Last(opts, "o", "output")
		if to == "" || to == "-" {
			_, _ = p.Stdout.Write(data)
			continue
		}
		if getopt.Has(opts, "create-dirs") {
			if err := p.FS.MkdirAll(path.Dir(p.Abs(to)), 0o755); err != nil {
				return complain(curlWrite, "%s", disk.Strerror(err))
			}
		}
		if err := p.FS.WriteFile(p.Abs(to), data, 0o666); err != nil {
			return complain(curlWrite, "client returned ERROR on write, 0 bytes written: %s", disk.Strerror(err))
		}
	}
	return 0
}

func runUname(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:])
	values := []struct{ flag, value string }{
		{"s", "Linux"}, {"n", p.Hostname()}, {"r", p.Sys.Kernel()}, {"v", "#91-Ubuntu SMP PREEMPT_DYNAMIC"}, {"m", machineName(p.Sys.Config.Arch)}, {"o", "GNU/Linux"},
	}
	var out []string
	for _, v := range values {
		if getopt.Has(opts, v.flag, "a") || len(opts) == 0 && v.flag == "s" {
			out = append(out, v.value)
		}
	}
	p.Printf("%s\n", strings.Join(out, " "))
	return 0
}

// runHostname shows the name.
func runHostname(_ context.Context, p *machine.Proc) int {
	if len(p.Args) > 1 {
		return p.Fail("only the name is shown here: hostname")
	}
	p.Printf("%s\n", p.Hostname())
	return 0
}

// machineName is what the kernel calls an architecture.
func machineName(arch string) string {
	switch arch {
	case "", "amd64":
		return "x86_64"
	case "arm64":
		return "aarch64"
	}
	return arch
}
