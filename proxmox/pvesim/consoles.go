package pvesim

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Consoles are opened and answered for, and nobody speaks behind them.
func consoleHandlers() map[string]handler {
	const vm = "/nodes/{node}/qemu/{vmid}"
	return map[string]handler{
		"POST " + vm + "/vncproxy":       (*call).vncProxy,
		"POST " + vm + "/termproxy":      (*call).vncProxy,
		"POST " + vm + "/spiceproxy":     (*call).spiceProxy,
		"GET " + vm + "/vncwebsocket":    (*call).vncWebsocket,
		"POST " + vm + "/dbus-vmstate":   (*call).dbusState,
		"POST " + vm + "/remote_migrate": (*call).remoteMigrate,
		"GET " + vm + "/rrd":             (*call).vmPicture,
	}
}

// consolePatience is how long a proxy waits for somebody to connect.
const consolePatience = 10 * time.Second

// vncProxy opens a port for a console, and a task that waits there.
func (c *call) vncProxy() (any, error) {
	v, err := c.vm()
	if err != nil {
		return nil, err
	}
	serial := strings.HasPrefix(c.s.props("vga", v.conf["vga"])["type"], "serial")
	port, ticket := c.s.vncPort(), c.s.vncTicket("/vms/"+itoa(v.id))
	upid, err := c.startTask("vncproxy", itoa(v.id), func(w worker) error {
		if err := w.sleep(consolePatience); err != nil {
			return err
		}
		return die("connection timed out")
	})
	out := map[string]any{"user": c.who.id, "ticket": ticket, "port": itoa(port), "upid": upid}
	if strings.HasSuffix(c.path, "/termproxy") {
		return out, err
	}
	out["cert"] = c.s.certificate()
	if c.p.bool("generate-password") || c.p.bool("websocket") || !serial {
		password := c.s.password()
		out["password"], out["ticket"] = password, password+":"+ticket
	}
	return out, err
}

// vncPort is the first port that nobody has been given lately.
func (s *Sim) vncPort() int {
	for port := 5900; port < 6000; port++ {
		if until, taken := s.ports[port]; !taken || !time.Now().Before(until) {
			if s.ports == nil {
				s.ports = map[int]time.Time{}
			}
			s.ports[port] = time.Now().Add(time.Duration(float64(consolePatience) / s.opts.Speed))
			return port
		}
	}
	return 5900
}

func (s *Sim) vncTicket(path string) string {
	if s.vncTickets == nil {
		s.vncTickets = map[string]string{}
	}
	ticket := fmt.Sprintf("PVEVNC:%08X::%s", time.Now().Unix(), strings.ReplaceAll(s.uuid(), "-", ""))
	s.vncTickets[ticket] = path
	return ticket
}

// password is one of eight printable characters.
func (s *Sim) password() string {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte('!' + s.random.IntN('~'-'!'+1))
	}
	return string(b)
}

// certificate is the cluster's own, in PEM.
func (s *Sim) certificate() string {
	if s.cert == nil {
		made, err := selfSigned(s.nodes())
		if err != nil {
			return ""
		}
		s.cert = &made
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Certificate[0]}))
}

// vncWebsocket answers to a ticket of vncProxy's.
func (c *call) vncWebsocket() (any, error) {
	ticket := c.param("vncticket")
	if i := strings.Index(ticket, "PVEVNC:"); i > 0 {
		ticket = ticket[i:]
	}
	if c.s.vncTickets[ticket] != "/vms/"+c.param("vmid") {
		if err := c.s.wait(unauthorizedDelay, nil); err != nil {
			return nil, err
		}
		return nil, fail(http.StatusUnauthorized, "permission denied - invalid PVEVNC ticket")
	}
	if _, err := c.vm(); err != nil {
		return nil, err
	}
	return map[string]any{"port": c.param("port")}, nil
}

func (c *call) spiceProxy() (any, error) {
	v, err := c.vm()
	switch {
	case err != nil:
		return nil, err
	case !v.running:
		return nil, die("VM %d not running", v.id)
	case !strings.HasPrefix(c.s.props("vga", v.conf["vga"])["type"], "qxl"):
		return nil, die("no spice port")
	}
	return map[string]any{"type": "spice", "title": "VM " + itoa(v.id) + " - " + v.conf["name"], "host": c.s.vncTicket("/vms/" + itoa(v.id)),
		"proxy": "http://" + v.node + ":3128", "tls-port": 61000, "password": c.s.password(), "ca": c.s.certificate(), "delete-this-file": 1,
		"release-cursor": "Ctrl+Alt+R", "toggle-fullscreen": "Shift+F11", "secure-attention": "Ctrl+Alt+Ins"}, nil
}

func (c *call) dbusState() (any, error) {
	v := c.s.vms[c.vmid()]
	if v == nil || !v.running || v.node != c.param("node") {
		return nil, badParam("node", fmt.Sprintf("VM %d not running locally on node '%s'", c.vmid(), c.param("node")))
	}
	return nil, nil
}

func (c *call) remoteMigrate() (any, error) {
	if _, err := c.vm(); err != nil {
		return nil, err
	}
	return nil, die("migration to other clusters is not simulated")
}

// firstRound is how long pvestatd takes to see a new VM at the latest.
const firstRound = 10 * time.Second

// recorded refuses the history of a VM that pvestatd has not yet seen.
func (v *vm) recorded(s *Sim) error {
	if time.Since(v.ctime) < time.Duration(float64(firstRound)/s.opts.Speed) {
		return die("RRD error: rrdcached@unix:/var/run/rrdcached.sock: rrd_fetch_r failed: opening '/var/lib/rrdcached/db/pve-vm-9.0/%d': "+
			"No such file or directory", v.id)
	}
	return nil
}

func (c *call) vmPicture() (any, error) {
	v, err := c.vm()
	if err == nil {
		err = v.recorded(c.s)
	}
	if err != nil {
		return nil, err
	}
	return map[string]any{"filename": fmt.Sprintf("/var/lib/rrdcached/db/pve-vm-9.0/%d_%s_%s_%s.png", v.id, c.param("ds"), c.param("timeframe"), "AVERAGE")}, nil
}
