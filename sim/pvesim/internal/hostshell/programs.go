package hostshell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/request"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// exitDied is the exit status of a Perl program that died.
const exitDied = 255

// cliCall is what a command line of Proxmox's programs asks of the API.
type cliCall struct {
	method, path string
	p            request.Params
}

// hostPrograms are Proxmox's own programs on a node: each is a call of the API.
func hostPrograms(s *world.State, h *world.Host) map[string]guest.HostProgram {
	cli := func(parse func(words []string, p request.Params) (cliCall, error)) guest.HostProgram {
		return func(_ context.Context, args []string, _ io.Reader, stdout, stderr io.Writer) int {
			words, p := cliArgs(args[1:])
			asJSON := p.Get("output-format") == "json"
			delete(p, "output-format")
			c, err := parse(words, p)
			if err == nil {
				var data any
				if data, err = asRoot(s, c.method, c.path, c.p); err == nil {
					printTask(s, data, stdout)
					return cliPrint(stdout, data, asJSON)
				}
			}
			return cliFail(stderr, err)
		}
	}
	return map[string]guest.HostProgram{
		"pvesh": cli(pveshCall),
		"pveum": cli(pveumCall),
		"pvesm": pvesmProgram(s, h, cli(pvesmCall)),
		"qm":    qmProgram(s, h, cli(func(words []string, p request.Params) (cliCall, error) { return qmCall(h.Name, words, p) })),
	}
}

// printTask prints the log of a task to its end: a program on the host does itself what a worker does for the daemons
// (fork_worker, PVE/RESTEnvironment.pm).
func printTask(s *world.State, data any, stdout io.Writer) {
	upid, _ := data.(string)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	t := s.Tasks[upid]
	if t == nil {
		return
	}
	for t.Running() && s.Wait(100*time.Millisecond, nil) == nil {
	}
	for _, line := range t.Lines {
		_, _ = fmt.Fprintln(stdout, line)
	}
}

func notSimulated(program string, words []string) error {
	return fmt.Errorf("%s %s is not simulated", program, strings.Join(words, " "))
}

// cliArgs splits a command line into words and options, --name value or --name=value.
func cliArgs(args []string) (words []string, p request.Params) {
	p = request.Params{}
	for i := 0; i < len(args); i++ {
		name, option := strings.CutPrefix(args[i], "-")
		if !option {
			words = append(words, args[i])
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		if !given && i+1 < len(args) {
			i++
			value = args[i]
		}
		p[name] = append(p[name], value)
	}
	return words, p
}

func cliPrint(w io.Writer, data any, asJSON bool) int {
	if data == nil {
		return 0
	}
	if text, ok := data.(string); ok && !asJSON {
		_, _ = fmt.Fprintln(w, text)
		return 0
	}
	out, err := json.Marshal(data)
	if err != nil {
		return exitDied
	}
	_, _ = fmt.Fprintln(w, string(out))
	return 0
}

// cliFail prints an error as Proxmox's programs do: those of parameters one a line.
func cliFail(w io.Writer, err error) int {
	var api *answer.Error
	if errors.As(err, &api) && len(api.Params) > 0 {
		_, _ = fmt.Fprintln(w, "400 Parameter verification failed.")
		for name, why := range api.Params {
			_, _ = fmt.Fprintf(w, "%s: %s\n", name, why)
		}
		return exitDied
	}
	_, _ = fmt.Fprintln(w, strings.TrimSpace(err.Error()))
	return exitDied
}

func pveshCall(words []string, p request.Params) (cliCall, error) {
	verbs := map[string]string{"get": "GET", "create": "POST", "set": "PUT", "delete": "DELETE"}
	if len(words) != 2 || verbs[words[0]] == "" {
		return cliCall{}, notSimulated("pvesh", words)
	}
	return cliCall{verbs[words[0]], words[1], p}, nil
}

func pvesmCall(words []string, p request.Params) (cliCall, error) {
	switch {
	case len(words) == 2 && words[0] == "set":
		return cliCall{"PUT", "/storage/" + words[1], p}, nil
	case len(words) == 1 && words[0] == "status":
		return cliCall{"GET", "/storage", p}, nil
	}
	return cliCall{}, notSimulated("pvesm", words)
}

// pveumCall maps the commands of PVE/CLI/pveum.pm to methods, their further words to
// parameters.
func pveumCall(words []string, p request.Params) (cliCall, error) {
	commands := map[string]struct {
		method, path string
		words        []string
	}{
		"role add":          {"POST", "/access/roles", []string{"roleid"}},
		"role modify":       {"PUT", "/access/roles/{roleid}", []string{"roleid"}},
		"role delete":       {"DELETE", "/access/roles/{roleid}", []string{"roleid"}},
		"role list":         {"GET", "/access/roles", nil},
		"user add":          {"POST", "/access/users", []string{"userid"}},
		"user modify":       {"PUT", "/access/users/{userid}", []string{"userid"}},
		"user delete":       {"DELETE", "/access/users/{userid}", []string{"userid"}},
		"user list":         {"GET", "/access/users", nil},
		"user token add":    {"POST", "/access/users/{userid}/token/{tokenid}", []string{"userid", "tokenid"}},
		"user token modify": {"PUT", "/access/users/{userid}/token/{tokenid}", []string{"userid", "tokenid"}},
		"user token delete": {"DELETE", "/access/users/{userid}/token/{tokenid}", []string{"userid", "tokenid"}},
		"user token remove": {"DELETE", "/access/users/{userid}/token/{tokenid}", []string{"userid", "tokenid"}},
		"user token list":   {"GET", "/access/users/{userid}/token", []string{"userid"}},
		"acl modify":        {"PUT", "/access/acl", []string{"path"}},
		"acl delete":        {"PUT", "/access/acl", []string{"path"}},
		"acl list":          {"GET", "/access/acl", nil},
	}
	for n := min(3, len(words)); n > 0; n-- {
		name := strings.Join(words[:n], " ")
		c, ok := commands[name]
		if !ok || len(words)-n != len(c.words) {
			continue
		}
		path := c.path
		for i, word := range c.words {
			if variable := "{" + word + "}"; strings.Contains(path, variable) {
				path = strings.Replace(path, variable, words[n+i], 1)
			} else {
				p[word] = []string{words[n+i]}
			}
		}
		if slices.Equal(words[:n], []string{"acl", "delete"}) {
			p["delete"] = []string{"1"}
		}
		return cliCall{c.method, path, p}, nil
	}
	return cliCall{}, notSimulated("pveum", words)
}
