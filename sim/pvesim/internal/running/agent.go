package running

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/config"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/hypervisor"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
)

// agentTimeout is how long Proxmox waits for the agent's answer to a ping.
const agentTimeout = 3 * time.Second

// agent returns the guest whose agent answers.
func agent(c *world.Call) (hypervisor.Guest, error) {
	v, err := c.VM()
	if err != nil {
		return nil, err
	}
	if !config.AgentOn(v.Conf) {
		return nil, answer.Die("No QEMU guest agent configured")
	}
	if !v.Running {
		return nil, answer.Die("VM %d is not running", v.ID)
	}
	m := v.Machine
	up := false
	if m != nil {
		c.State.WithoutLock(func() { up = m.AgentUp() })
	}
	if !up {
		if err := c.State.Wait(agentTimeout, nil); err != nil {
			return nil, err
		}
		return nil, answer.Die("QEMU guest agent is not running")
	}
	return m, nil
}

// askAgent runs an agent's command on the guest, without our lock.
func askAgent[T any](c *world.Call, f func(m hypervisor.Guest) (T, error)) (out T, err error) {
	m, err := agent(c)
	if err != nil {
		return out, err
	}
	c.State.WithoutLock(func() { out, err = f(m) })
	switch { // it may have gone since it answered the ping
	case errors.Is(err, guest.ErrOff):
		err = answer.Die("VM %d is not running", c.VMID())
	case errors.Is(err, guest.ErrNoAgent):
		err = answer.Die("QEMU guest agent is not running")
	}
	return out, err
}

func result(v any) map[string]any { return map[string]any{"result": v} }

func agentPing(c *world.Call) (any, error) {
	if _, err := agent(c); err != nil {
		return nil, err
	}
	return result(map[string]any{}), nil
}

// agentExec starts a program. The agent's words for one that is not there hold
// typographic quotes, which the API daemon dies of.
func agentExec(c *world.Call) (any, error) {
	input, err := narrow(c.Param("input-data"))
	if err != nil {
		return nil, err
	}
	argv := c.Params["command"]
	pid, err := askAgent(c, func(m hypervisor.Guest) (int, error) { return m.AgentExec(argv, input) })
	var refused *answer.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, &answer.Error{Status: 596, Text: "Broken pipe", Bare: true}
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"pid": pid}, nil
}

// narrow turns text into the bytes that a guest gets: Perl's base64 encoder takes
// characters for bytes, and refuses those that are none.
func narrow(s string) ([]byte, error) {
	out := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return nil, answer.Die("Wide character in subroutine entry at /usr/share/perl5/PVE/API2/Qemu/Agent.pm line 291.")
		}
		out = append(out, byte(r))
	}
	return out, nil
}

// widen is the way back: bytes become the characters of their number.
func widen(b []byte) string {
	ascii := true
	for _, c := range b {
		ascii = ascii && c < 0x80
	}
	if ascii {
		return string(b)
	}
	runes := make([]rune, len(b))
	for i, c := range b {
		runes[i] = rune(c)
	}
	return string(runes)
}

// maxOutput is what the agent keeps of a program's output.
const maxOutput = 16 << 20

func agentExecStatus(c *world.Call) (any, error) {
	st, err := askAgent(c, func(m hypervisor.Guest) (guest.ExecStatus, error) { return m.AgentStatus(c.Params.Int("pid", 0)) })
	var refused *answer.Error
	if err != nil && !errors.As(err, &refused) {
		return nil, answer.Die("Agent error: PID ld does not exist")
	}
	if err != nil {
		return nil, err
	}
	out := map[string]any{"exited": answer.Flag(st.Exited)}
	if !st.Exited {
		return out, nil
	}
	if st.Signal != 0 {
		out["signal"] = st.Signal
	} else {
		out["exitcode"] = st.ExitCode
	}
	for name, data := range map[string][]byte{"out": st.Out, "err": st.Err} {
		if len(data) == 0 {
			continue
		}
		if len(data) > maxOutput {
			data = data[:maxOutput]
			out[name+"-truncated"] = 1
		}
		out[name+"-data"] = widen(data)
	}
	return out, nil
}

func agentFileRead(c *world.Call) (any, error) {
	name := c.Param("file")
	data, err := askAgent(c, func(m hypervisor.Guest) ([]byte, error) { return m.AgentReadFile(name) })
	if err := agentFileError(name, err); err != nil {
		return nil, err
	}
	out := map[string]any{}
	if name == guest.Kmsg && c.Params.Int("count", maxOutput) > len(data) { // read without blocking
		return nil, answer.Die("Agent error: failed to read file: Resource temporarily unavailable")
	}
	data = data[min(len(data), c.Params.Int("offset", 0)):]
	if limit := c.Params.Int("count", maxOutput); len(data) > limit {
		data = data[:limit]
		out["truncated"] = 1
	}
	out["bytes-read"] = len(data)
	out["content"] = widen(data)
	if c.Params.Has("decode") && !c.Params.Bool("decode") {
		out["content"] = base64.StdEncoding.EncodeToString(data)
	}
	return out, nil
}

func agentFileWrite(c *world.Call) (any, error) {
	name := c.Param("file")
	data, err := narrow(c.Param("content"))
	if err != nil {
		return nil, err
	}
	if c.Params.Has("encode") && !c.Params.Bool("encode") {
		if data, err = base64.StdEncoding.DecodeString(c.Param("content")); err != nil {
			return nil, answer.Die("Agent error: failed to decode base64")
		}
	}
	_, err = askAgent(c, func(m hypervisor.Guest) (any, error) { return nil, m.AgentWriteFile(name, data) })
	return nil, agentFileError(name, err)
}

func agentFileError(name string, err error) error {
	var refused *answer.Error
	switch {
	case err == nil || errors.As(err, &refused):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return answer.Die("Agent error: failed to open file '%s' (mode: 'r'): No such file or directory", name)
	}
	return answer.Die("Agent error: failed to open file '%s': %v", name, err)
}

func agentInterfaces(c *world.Call) (any, error) {
	ifaces, err := askAgent(c, func(m hypervisor.Guest) ([]guest.Interface, error) { return m.AgentInterfaces() })
	if err != nil {
		return nil, err
	}
	out := []any{}
	for _, i := range ifaces {
		addrs := []any{}
		for _, a := range i.Addrs {
			kind := "ipv4"
			if a.Addr().Is6() {
				kind = "ipv6"
			}
			addrs = append(addrs, map[string]any{"ip-address": a.Addr().String(), "ip-address-type": kind, "prefix": a.Bits()})
		}
		out = append(out, map[string]any{"name": i.Name, "hardware-address": strings.ToLower(i.MAC), "ip-addresses": addrs,
			"statistics": map[string]any{"rx-bytes": 0, "tx-bytes": 0}})
	}
	return result(out), nil
}

func agentInfo(c *world.Call) (any, error) {
	if _, err := agent(c); err != nil {
		return nil, err
	}
	commands := []any{}
	for _, name := range []string{"guest-ping", "guest-info", "guest-exec", "guest-exec-status", "guest-file-open", "guest-file-read", "guest-network-get-interfaces", "guest-shutdown"} {
		commands = append(commands, map[string]any{"name": name, "enabled": true, "success-response": true})
	}
	return result(map[string]any{"version": "8.2.2", "supported_commands": commands}), nil
}

func agentHostName(c *world.Call) (any, error) {
	b, err := askAgent(c, func(m hypervisor.Guest) ([]byte, error) { return m.AgentReadFile("/etc/hostname") })
	if err := agentFileError("/etc/hostname", err); err != nil {
		return nil, err
	}
	return result(map[string]any{"host-name": strings.TrimSpace(string(b))}), nil
}

func agentOSInfo(c *world.Call) (any, error) {
	b, err := askAgent(c, func(m hypervisor.Guest) ([]byte, error) { return m.AgentReadFile("/etc/os-release") })
	if err := agentFileError("/etc/os-release", err); err != nil {
		return nil, err
	}
	info := map[string]any{"machine": "x86_64"}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name, ok := map[string]string{"ID": "id", "NAME": "name", "PRETTY_NAME": "pretty-name", "VERSION": "version", "VERSION_ID": "version-id"}[k]; ok {
			info[name] = strings.Trim(v, `"`)
		}
	}
	return result(info), nil
}
