package cloudinit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Bake describes what goes into a template before it is sealed: software that every clone
// needs, and nothing about a single machine.
type Bake struct {
	Hostname    string // while it is being baked
	InstanceID  string // empty: made from the hostname and a digest
	Packages    []string
	Holds       []string // packages to hold
	APTSources  []APTSource
	APTMirror   string // URL instead of the distribution's archive
	APTSecurity string // URL of its security updates; empty: APTMirror has them too
	APTProxy    string // URL of an HTTP proxy for packages from repositories without TLS
	HTTPSProxy  string // URL of an HTTP proxy for repositories with TLS; empty: none
	Upgrade     bool   // bring the image's own packages up to date first
	Files       []File
	Commands    [][]string // argument vectors, run in order at the end

	// Where the machine is while it is being baked; sealing forgets it. Without a MAC
	// it asks DHCP on its first interface.
	MAC     string
	Address netip.Prefix // the zero Prefix asks DHCP
	Gateway netip.Addr
	DNS     []netip.Addr
	Search  []string
	MTU     int // bytes; 0 means the interface's own
}

// APTSource is a further repository of packages.
type APTSource struct {
	Name string // of the file under /etc/apt/sources.list.d, without its suffix
	Line string // "deb [signed-by=$KEY_FILE] https://… /"
	Key  string // armoured public key, kept where $KEY_FILE says
}

// RenderTemplate describes the machine in which a template is baked. It has no login: it is
// reached through the guest agent, whose package it installs and starts first.
func RenderTemplate(b Bake) (NoCloud, error) {
	if !hostnames.MatchString(b.Hostname) {
		return NoCloud{}, fmt.Errorf("template: hostname %q: want lower-case letters, digits and dashes, at most 63", b.Hostname)
	}
	u := UserData{
		Hostname:       b.Hostname,
		ManageEtcHosts: true,
		DisableRoot:    true,
		SSHKeyTypes:    []string{"ed25519"},
		APT:            apt(b.APTMirror, b.APTSecurity, b.APTProxy, b.HTTPSProxy),
		PackageUpdate:  true,
		PackageUpgrade: b.Upgrade,
		Packages:       []string{agent}, // alone, because apt installs all requested packages or none
		RunCmd:         [][]string{{"systemctl", "start", agent}, {"set", "-e"}},
	}
	u.install(slices.DeleteFunc(slices.Clone(b.Packages), func(p string) bool { return p == agent }))
	if err := u.addSources(b.APTSources); err != nil {
		return NoCloud{}, fmt.Errorf("template: %w", err)
	}
	for _, f := range b.Files {
		w, err := f.write()
		if err != nil {
			return NoCloud{}, fmt.Errorf("template: %w", err)
		}
		u.WriteFiles = append(u.WriteFiles, w)
	}
	if len(b.Holds) > 0 {
		u.RunCmd = append(u.RunCmd, append([]string{"apt-mark", "hold"}, b.Holds...))
	}
	u.RunCmd = append(u.RunCmd, b.Commands...)
	doc := NoCloud{UserData: u}
	if b.MAC != "" {
		var err error
		place := Machine{MAC: b.MAC, Address: b.Address, Gateway: b.Gateway, DNS: b.DNS, Search: b.Search, MTU: b.MTU}
		if doc.Network, err = place.network(); err != nil {
			return NoCloud{}, fmt.Errorf("template: %w", err)
		}
	}
	return identify(doc, b.Hostname, b.InstanceID)
}

// agent is both the package and the unit.
const agent = "qemu-guest-agent"

func (u *UserData) addSources(sources []APTSource) error {
	for _, s := range sources {
		if s.Name == "" || s.Line == "" {
			return errors.New("an APT source needs a name and a line")
		}
		if u.APT == nil {
			u.APT = &APT{}
		}
		if u.APT.Sources == nil {
			u.APT.Sources = map[string]Source{}
		}
		u.APT.Sources[s.Name+".list"] = Source{Source: s.Line, Key: s.Key}
	}
	return nil
}
