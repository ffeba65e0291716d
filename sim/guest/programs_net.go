package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/internet"
)

// Exit statuses of curl, from its manual page.
const (
	curlProtocol = 1
	curlResolve  = 6
	curlHTTP     = 22
	curlWrite    = 23
)

// runCurl is curl and wget, one URL at a time.
func runCurl(ctx context.Context, p *proc) int {
	wget := p.name() == "wget"
	valued := []string{"o", "output", "proto", "proto-redir", "retry", "retry-delay", "retry-max-time", "connect-timeout", "max-time", "m", "w", "H", "A", "header",
		"cacert", "x", "X", "T", "t", "O"}
	if !wget {
		valued = valued[:len(valued)-3]
	}
	opts, urls := flags(p.args[1:], valued...)
	silent := has(opts, "s", "silent", "q", "quiet", "nv")
	complain := func(code int, format string, args ...any) int {
		if !silent || has(opts, "S", "show-error") {
			fmt.Fprintf(p.stderr, p.name()+": (%d) %s\n", code, fmt.Sprintf(format, args...))
		}
		return code
	}
	for _, url := range urls {
		if proto := last(opts, "proto"); proto == "=https" && !strings.HasPrefix(url, "https://") {
			return complain(curlProtocol, "Protocol %q disabled", url)
		}
		data, err := p.download(ctx, url)
		switch {
		case errors.Is(err, errNoInternet):
			return complain(curlResolve, "Could not resolve host: %s", url)
		case errors.Is(err, internet.ErrNotFound) && (wget || has(opts, "f", "fail", "fail-with-body")):
			return complain(curlHTTP, "The requested URL returned error: 404")
		case errors.Is(err, internet.ErrNotFound):
			data = []byte("404 Not Found\n") // without --fail, curl takes it for the file
		case err != nil:
			return complain(7, "%v", err)
		}
		to := last(opts, "o", "output")
		if wget {
			if to = last(opts, "O"); to == "" {
				to = path.Base(url)
			}
		} else if has(opts, "O", "remote-name") {
			to = path.Base(url)
		}
		if has(opts, "I", "head") {
			p.printf("HTTP/2 200\ncontent-length: %d\n", len(data))
			continue
		}
		if to == "" || to == "-" {
			_, _ = p.stdout.Write(data)
			continue
		}
		if has(opts, "create-dirs") {
			if err := p.fs.MkdirAll(path.Dir(p.abs(to)), 0o755); err != nil {
				return complain(curlWrite, "%s", disk.Strerror(err))
			}
		}
		if err := p.fs.WriteFile(p.abs(to), data, 0o666); err != nil {
			return complain(curlWrite, "client returned ERROR on write, 0 bytes written: %s", disk.Strerror(err))
		}
	}
	return 0
}

// runGpg is gpg --dearmor: nothing here checks signatures.
func runGpg(_ context.Context, p *proc) int {
	opts, names := flags(p.args[1:], "o", "output")
	if !has(opts, "dearmor") {
		return p.fail("only --dearmor is simulated")
	}
	var all []byte
	if code := p.each(names, func(_ string, data []byte) { all = append(all, data...) }); code != 0 {
		return code
	}
	if !strings.Contains(string(all), "BEGIN PGP PUBLIC KEY") {
		_ = p.fail("no valid OpenPGP data found.")
		return 2
	}
	if to := last(opts, "o", "output"); to != "" {
		if err := p.fs.WriteFile(p.abs(to), all, 0o644); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
		return 0
	}
	_, _ = p.stdout.Write(all)
	return 0
}

func (p *proc) ipJSON(ifaces []Interface) int {
	type addr struct {
		Family string `json:"family"`
		Local  string `json:"local"`
		Bits   int    `json:"prefixlen"`
		Scope  string `json:"scope"`
	}
	type link struct {
		Index  int      `json:"ifindex"`
		Name   string   `json:"ifname"`
		Flags  []string `json:"flags"`
		MTU    int      `json:"mtu"`
		State  string   `json:"operstate"`
		MAC    string   `json:"address"`
		Addrs  []addr   `json:"addr_info"`
		Device string   `json:"link_type"`
	}
	out := []link{}
	for i, f := range ifaces {
		l := link{Index: i + 1, Name: f.Name, Flags: []string{"UP", "LOWER_UP"}, MTU: 1500, State: "UP", MAC: f.MAC, Device: "ether"}
		for _, a := range f.Addrs {
			l.Addrs = append(l.Addrs, addr{map[bool]string{true: "inet", false: "inet6"}[a.Addr().Is4()], a.Addr().String(), a.Bits(), "global"})
		}
		out = append(out, l)
	}
	data, err := json.Marshal(out)
	if err != nil {
		return p.fail("%v", err)
	}
	p.printf("%s\n", data)
	return 0
}

func runUname(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:])
	values := []struct{ flag, value string }{
		{"s", "Linux"}, {"n", p.sys.host()}, {"r", p.sys.kernel}, {"v", "#91-Ubuntu SMP PREEMPT_DYNAMIC"}, {"m", "x86_64"}, {"o", "GNU/Linux"},
	}
	var out []string
	for _, v := range values {
		if has(opts, v.flag, "a") || len(opts) == 0 && v.flag == "s" {
			out = append(out, v.value)
		}
	}
	p.printf("%s\n", strings.Join(out, " "))
	return 0
}

func runHostname(_ context.Context, p *proc) int {
	opts, args := flags(p.args[1:])
	if p.name() == "hostname" {
		switch {
		case has(opts, "I"):
			if a := p.sys.address(); a.IsValid() {
				p.printf("%s \n", a)
			}
		case len(args) > 0:
			if p.user.UID != 0 {
				return p.fail("you must be root to change the host name")
			}
			p.sys.setHostname(args[0])
		default:
			p.printf("%s\n", p.sys.host())
		}
		return 0
	}
	if len(args) > 1 && (args[0] == "set-hostname" || args[0] == "hostname") {
		if p.user.UID != 0 {
			return p.fail("Could not set static hostname: Access denied")
		}
		if err := p.fs.WriteFile("/etc/hostname", []byte(args[1]+"\n"), 0o644); err != nil {
			return p.fail("%s", disk.Strerror(err))
		}
		p.sys.setHostname(args[1])
		return 0
	}
	if len(args) > 0 && args[0] == "hostname" {
		p.printf("%s\n", p.sys.host())
		return 0
	}
	p.printf(" Static hostname: %s\nOperating System: Ubuntu 24.04.4 LTS\n          Kernel: Linux %s\n    Architecture: x86-64\n  Virtualization: kvm\n", p.sys.host(), p.sys.kernel)
	return 0
}

func runUptime(_ context.Context, p *proc) int {
	opts, _ := flags(p.args[1:])
	if has(opts, "s", "since") {
		p.printf("%s\n", p.sys.booted.UTC().Format(time.DateTime))
		return 0
	}
	p.printf(" up %s, 0 users, load average: 0.00, 0.00, 0.00\n", strconv.Itoa(int(time.Since(p.sys.booted).Minutes()))+" min")
	return 0
}
