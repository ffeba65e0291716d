package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/net/proxy"

	"github.com/cps-gpu/homelab/cluster"
	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/examples"
	"github.com/cps-gpu/homelab/internal/console"
	"github.com/cps-gpu/homelab/internal/keep"
	"github.com/cps-gpu/homelab/internal/labctl"
	"github.com/cps-gpu/homelab/internal/labneeds"
	"github.com/cps-gpu/homelab/internal/placement"
	"github.com/cps-gpu/homelab/internal/platform"
	"github.com/cps-gpu/homelab/internal/zone"
	"github.com/cps-gpu/homelab/kube/helm"
	"github.com/cps-gpu/homelab/proxmox"
	"github.com/cps-gpu/homelab/remote/ssh"
	"github.com/cps-gpu/homelab/secret"
)

// console returns the console of a command with these flags.
func (o Options) console() *console.Console {
	if o.Console != nil {
		return o.Console
	}
	return console.New(o.JSON)
}

// DefaultSpec is the default file, if it exists.
const DefaultSpec = "cluster.yaml"

// Session is a running command.
type Session struct {
	*console.Console
	opt     Options
	Spec    *spec.Spec
	Cluster *cluster.Cluster
	Away    error // why Proxmox cannot be reached, with Options.Without

	// unplaced is the file before hosts were chosen, if it has host: auto; else nil.
	unplaced *spec.Spec
	jumps    []*ssh.Client
	// hostWay opens a host's shell; nil: over SSH as the file says.
	hostWay func(ctx context.Context, host string) (ssh.Config, error)
	// keys is the source of answers; nil: the terminal.
	keys io.Reader
	// web is the transport to Proxmox; nil: over the network, with the file's settings of
	// certificates.
	web *http.Client
	// internet is the transport to registries and servers of files; nil: over the network.
	internet http.RoundTripper
	// toolkitDigests are those of NVIDIA's container toolkit in the folder of a mirror; nil: the real ones.
	toolkitDigests map[string]string
	// outside is set if the site's network reaches the internet.
	outside bool
	// wrap wraps every request to Proxmox; may be nil.
	wrap func(http.RoundTripper) http.RoundTripper
	// What host:prep adds if there is no file yet.
	prepGrants []proxmox.Grant
	prepNext   string
}

// Load reads the cluster file.
func Load(o Options) (*Session, error) {
	s := &Session{Console: o.console(), opt: o}
	var err error
	file := filepath.Join(home(), DefaultSpec)
	switch _, missing := os.Stat(file); {
	case o.Spec != "":
		s.Spec, err = cluster.Load(o.Spec)
	case errors.Is(missing, fs.ErrNotExist):
		s.Printf("No %s here: using the example eight-a100 (examples/eight-a100/cluster.yaml).", DefaultSpec)
		s.Spec, err = cluster.Parse("examples/eight-a100/cluster.yaml", examples.EightA100)
		if err == nil {
			s.Spec.Dir = cmp.Or(home(), ".") // it came with the program; its files belong here
		}
	default:
		if file != DefaultSpec {
			s.Printf("No %s in this folder: using %s.", DefaultSpec, file)
		}
		s.Spec, err = cluster.Load(file)
	}
	if err != nil {
		return nil, exitError(invalid, err)
	}
	return s, nil
}

// Warn prints what is allowed in the file, but probably not intended.
func (s *Session) Warn() {
	for _, w := range s.Spec.Warnings {
		s.Printf("warning: %s", w)
	}
	s.warnOfHub()
}

// warnOfHub prints settings of the hub that work, but are probably not intended.
func (s *Session) warnOfHub() {
	if s.Cluster == nil {
		return
	}
	if hub, ok := s.Cluster.Hub(); ok {
		for _, w := range hub.Warnings() {
			s.Printf("warning: hub: %s", w)
		}
	}
}

// Open loads the file and connects to the world.
func Open(ctx context.Context, o Options) (*Session, error) {
	s, err := Load(o)
	if err != nil {
		return nil, err
	}
	return s, s.bind(ctx)
}

// backendOf is what is known of the cluster's world without asking it.
func backendOf(s *Session) cluster.Backend {
	b := cluster.Backend{Dir: s.dir(), ToolkitDigests: s.toolkitDigests, Charts: helm.Source{Folder: s.opt.Charts, Offline: s.opt.Offline}}
	if s.opt.Distribution != nil {
		b.Distribution = s.opt.Distribution
	}
	return b
}

// bind binds the file to its world.
func (s *Session) bind(ctx context.Context) (err error) {
	if s.Spec != nil {
		if err := keep.CheckNoSymlink(s.dir()); err != nil {
			return exitError(invalid, err)
		}
	}
	backend := backendOf(s)
	if err := backend.CheckDistribution(s.Spec); err != nil {
		return exitError(invalid, err)
	}
	if s.Spec.IsLab() {
		err = s.openLab(ctx, &backend)
	} else {
		err = s.openSite(ctx, &backend)
		s.outside = !s.opt.Offline
		if s.outside {
			backend.CheckProvider = platform.CheckProvider
		}
	}
	if s.outside || s.Spec.IsLab() && zone.OnLoopback(s.Spec.Platform.DNS) {
		backend.CheckDNS = zone.Check
	}
	if err != nil {
		return err
	}
	asked := s.Spec
	if s.Away != nil {
		s.Spec = anywhere(asked)
	} else if s.Spec, err = placement.Place(ctx, asked, backend.Proxmox); err != nil {
		return err
	}
	if s.Spec != asked {
		s.unplaced = asked
	}
	s.Cluster, err = cluster.New(s.Spec, backend)
	return err
}

// anywhere returns a file in which nodes with an open host are on the first: without Proxmox nobody
// knows where they are, and nobody asks.
func anywhere(want *spec.Spec) *spec.Spec {
	out := *want
	out.Nodes = slices.Clone(want.Nodes)
	for i := range out.Nodes {
		if out.Nodes[i].Unplaced() {
			out.Nodes[i].Host = want.Proxmox.Hosts[0].Name
		}
	}
	return &out
}

// Close ends all connections.
func (s *Session) Close() {
	if s.Cluster != nil {
		s.Cluster.Close()
	}
	for _, jump := range s.jumps {
		_ = jump.Close()
	}
}

// dir is the folder of the cluster's files on this machine.
func (s *Session) dir() string { return filepath.Join(s.Spec.Dir, ".homelab", s.Spec.Name) }

// login finds the keys for logging in to the guests. If the file names none, one is derived
// from the API token's secret, so nothing has to be stored. Without a Proxmox VE there is no such
// secret, and a key is generated, which stays in use if the cluster gets machines on one later.
func (s *Session) login(b *cluster.Backend, token secret.Value) (err error) {
	if s.Spec == nil { // there is no file and no machine yet
		return nil
	}
	if b.MachineKeys, err = machineKeys(s.Spec.Nodes); err != nil {
		return err
	}
	for _, n := range s.Spec.Nodes {
		if n.SudoPassword.IsZero() {
			continue
		}
		password, err := n.SudoPassword.Resolve()
		if err != nil {
			return fmt.Errorf("sudoPassword of %s: %w", n.Name, err)
		}
		s.AddSecrets(password)
	}
	a := s.Spec.Access
	if a.Agent {
		b.Agent = os.Getenv("SSH_AUTH_SOCK")
		if b.Agent == "" {
			return errors.New("ssh.agent is set, and no SSH agent runs here (SSH_AUTH_SOCK is empty): start one with eval $(ssh-agent) and ssh-add")
		}
		return nil
	}
	path := a.PrivateKey
	if path == "" {
		path = filepath.Join(b.Dir, keyFile)
		if !token.IsZero() {
			if b.TokenKey, err = cluster.LoginKey(token, s.Spec.Name); err != nil {
				return err
			}
		}
		_, missing := os.Stat(path)
		switch there := !errors.Is(missing, fs.ErrNotExist); {
		case !there && b.TokenKey != nil:
			return nil
		case !there && !s.opt.MakeKey:
			return fmt.Errorf("there is no key to log in to the machines with: name yours (ssh.privateKey and ssh.publicKeys, or ssh.agent), or let cluster:up generate one, which it stores in %s", path)
		case !there:
			if err := makeKey(path); err != nil {
				return err
			}
		}
	}
	signer, err := ssh.LoadSigner(path)
	if err != nil {
		return err
	}
	b.Signers = []ssh.Signer{signer}
	return nil
}

// Lacks says why a command cannot be done with the Kubernetes of the file; nil: it can.
func Lacks(s *Session, command string) error {
	return backendOf(s).Lacks(s.Spec, command)
}

// openLab starts or finds the lab, and uses its jump host like that of a real site.
func (s *Session) openLab(ctx context.Context, b *cluster.Backend) error {
	if s.Spec != nil && s.Spec.Sealed {
		return exitErrorf(invalid, "the embedded lab plays no Talos machines: name a Proxmox VE under proxmox.endpoint")
	}
	s.Printf("%s", labneeds.Guests(s.Spec).Banner())
	find := func(ctx context.Context) (labctl.State, error) { return labctl.Find(ctx, LabDir()) }
	if s.opt.Start {
		find = s.StartLab
	}
	lab, err := find(ctx)
	if errors.Is(err, labctl.ErrNotRunning) {
		return exitErrorf(pending, "the lab is not running: homelab cluster:up starts it")
	}
	if err != nil {
		return err
	}
	if err := s.labFits(lab); err != nil {
		return err
	}
	if lab.Guests.Real() { // its image is known only now
		spec := *s.Spec
		spec.Image.SHA256 = lab.ImageSHA256
		s.Spec = &spec
	}
	token, err := lab.Token()
	if err != nil {
		return err
	}
	s.Redact.Add(token)
	b.Token = token
	if err := s.login(b, token); err != nil {
		return exitError(invalid, err)
	}
	b.Proxmox, err = proxmox.Dial(ctx, proxmox.Config{Endpoint: lab.Endpoint, Fingerprint: lab.Fingerprint, TokenID: lab.TokenID, TokenSecret: token, Poll: labPoll, Wrap: s.wrap})
	if err != nil {
		return err
	}
	signer, err := ssh.LoadSigner(lab.Jump.KeyFile)
	if err != nil {
		return err
	}
	key, err := ssh.ParseAuthorizedKey(lab.Jump.HostKey)
	if err != nil {
		return err
	}
	jump := ssh.New(ssh.Config{Addr: lab.Jump.Address, User: lab.Jump.User, Signers: []ssh.Signer{signer}, HostKeys: ssh.Pin(key)})
	s.jumps = append(s.jumps, jump)
	b.Dial, b.Via, b.ProxyURL = jump.Dial, "the lab's jump host", lab.SOCKS
	s.labCharts(lab, &b.Charts)
	s.hostWay = labHost(lab, signer, jump)
	return nil
}

// labCharts uses the lab's own charts unless others are named: the lab has no images and no
// internet.
func (s *Session) labCharts(lab labctl.State, charts *helm.Source) {
	if lab.Guests.Real() || s.Spec == nil || !platform.HasPlatform(s.Spec) || lab.Charts == "" || charts.Folder != "" || s.Spec.Platform.Charts.Folder != "" {
		return
	}
	*charts = helm.Source{Folder: lab.Charts, Offline: true}
	s.Printf("charts: the lab's own stand-ins (%s); -charts=FOLDER uses real ones", lab.Charts)
}

// labPoll is how often running tasks are polled: those of the lab are short.
const labPoll = 250 * time.Millisecond

// openSite connects to a real Proxmox VE, and to its guests through a jump host or proxy, if
// the file names one.
func (s *Session) openSite(ctx context.Context, b *cluster.Backend) (err error) {
	var token secret.Value
	if s.Spec.HasProxmox() {
		if token, err = s.token(); err != nil {
			return err
		}
		b.Token = token
		b.Proxmox, err = s.dial(ctx)
		switch {
		case err != nil && s.opt.Without && ctx.Err() == nil:
			s.Away, b.Proxmox = err, nil
		case err != nil:
			return err
		}
	}
	if s.Spec.HasHarvester() {
		if err := openHarvester(s, b); err != nil {
			return exitError(invalid, err)
		}
	}
	if err := s.login(b, token); err != nil {
		return exitError(invalid, err)
	}
	if home, err := os.UserHomeDir(); err == nil { // a service may have none, and then no known hosts
		b.KnownHosts = ssh.NewKnownHosts(filepath.Join(home, ".ssh", "known_hosts"))
	}
	if s.Spec.Access.Proxy != "" {
		if err := openProxy(b, s.Spec.Access.Proxy); err != nil {
			return err
		}
	}
	return s.openJumps(b)
}

func openProxy(b *cluster.Backend, address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return exitError(invalid, fmt.Errorf("ssh.proxy: %w", err))
	}
	dialer, err := proxy.FromURL(u, proxy.Direct)
	if err != nil {
		return exitError(invalid, fmt.Errorf("ssh.proxy: %w", err))
	}
	ctxDialer, ok := dialer.(proxy.ContextDialer)
	if !ok {
		return exitError(invalid, fmt.Errorf("ssh.proxy %s: write socks5://host:port", u.Redacted()))
	}
	b.Dial, b.Via, b.ProxyURL = ctxDialer.DialContext, "proxy "+u.Host, address
	return nil
}

// AddSecrets adds values that no output may show.
func (s *Session) AddSecrets(values ...secret.Value) { s.Redact.Add(values...) }

// Do opens a session, does one thing in it, and closes it.
func Do(ctx context.Context, o Options, do func(*Session, context.Context) error) error {
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s, ctx)
}
