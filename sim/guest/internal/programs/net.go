package programs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

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

// runCurl is curl and wget, one URL at a time.
func runCurl(ctx context.Context, p *machine.Proc) int {
	wget := p.Name() == "wget"
	valued := []string{"o", "output", "proto", "proto-redir", "retry", "retry-delay", "retry-max-time", "connect-timeout", "max-time", "m", "w", "H", "A", "header",
		"cacert", "x", "X", "T", "t", "O"}
	if !wget {
		valued = valued[:len(valued)-3]
	}
	opts, urls := getopt.Parse(p.Args[1:], valued...)
	silent := getopt.Has(opts, "s", "silent", "q", "quiet", "nv")
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
		case errors.Is(err, internet.ErrNotFound) && (wget || getopt.Has(opts, "f", "fail", "fail-with-body")):
			return complain(curlHTTP, "The requested URL returned error: 404")
		case errors.Is(err, internet.ErrNotFound):
			data = []byte("404 Not Found\n") // without --fail, curl takes it for the file
		case err != nil:
			return complain(7, "%v", err)
		}
		to := getopt.Last(opts, "o", "output")
		if wget {
			if to = getopt.Last(opts, "O"); to == "" {
				to = path.Base(url)
			}
		} else if getopt.Has(opts, "O", "remote-name") {
			to = path.Base(url)
		}
		if getopt.Has(opts, "I", "head") {
			p.Printf("HTTP/2 200\ncontent-length: %d\n", len(data))
			continue
		}
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

func runHostname(_ context.Context, p *machine.Proc) int {
	opts, args := getopt.Parse(p.Args[1:])
	if p.Name() == "hostname" {
		switch {
		case getopt.Has(opts, "I"):
			if a := p.Sys.Address(); a.IsValid() {
				p.Printf("%s \n", a)
			}
		case len(args) > 0:
			if p.User.UID != 0 || p.Box != nil {
				return p.Fail("you must be root to change the host name")
			}
			p.Sys.SetHostname(args[0])
		default:
			p.Printf("%s\n", p.Hostname())
		}
		return 0
	}
	if len(args) > 1 && (args[0] == "set-hostname" || args[0] == "hostname") {
		if p.User.UID != 0 {
			return p.Fail("Could not set static hostname: Access denied")
		}
		if err := p.FS.WriteFile("/etc/hostname", []byte(args[1]+"\n"), 0o644); err != nil {
			return p.Fail("%s", disk.Strerror(err))
		}
		p.Sys.SetHostname(args[1])
		return 0
	}
	if len(args) > 0 && args[0] == "hostname" {
		p.Printf("%s\n", p.Sys.Hostname())
		return 0
	}
	p.Printf(" Static hostname: %s\nOperating System: Ubuntu 24.04.4 LTS\n          Kernel: Linux %s\n    Architecture: x86-64\n  Virtualization: kvm\n", p.Sys.Hostname(), p.Sys.Kernel())
	return 0
}

func runUptime(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:])
	if getopt.Has(opts, "s", "since") {
		p.Printf("%s\n", p.Sys.Booted().UTC().Format(time.DateTime))
		return 0
	}
	p.Printf(" up %s, 0 users, load average: 0.00, 0.00, 0.00\n", strconv.Itoa(int(time.Since(p.Sys.Booted()).Minutes()))+" min")
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
