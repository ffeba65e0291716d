package cloudinit

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"unicode/utf8"
)

// UserData is the part of cloud-init's cloud-config that a cluster's machines
// need. The keys are cloud-init's own.
type UserData struct {
	Hostname         string      `yaml:"hostname,omitempty"`
	PreserveHostname bool        `yaml:"preserve_hostname"`
	ManageEtcHosts   bool        `yaml:"manage_etc_hosts"`
	Users            []User      `yaml:"users"` // empty means no user at all, not the image's default one
	SSHPasswordAuth  bool        `yaml:"ssh_pwauth"`
	DisableRoot      bool        `yaml:"disable_root"`
	SSHDeleteKeys    bool        `yaml:"ssh_deletekeys"`            // delete host keys that are there and make new ones, once per instance
	SSHKeyTypes      []string    `yaml:"ssh_genkeytypes,omitempty"` // host keys to make
	Timezone         string      `yaml:"timezone,omitempty"`
	APT              *APT        `yaml:"apt,omitempty"`
	PackageUpdate    bool        `yaml:"package_update,omitempty"`
	PackageUpgrade   bool        `yaml:"package_upgrade,omitempty"`
	RebootIfRequired bool        `yaml:"package_reboot_if_required,omitempty"`
	Packages         []string    `yaml:"packages,omitempty"`
	WriteFiles       []WriteFile `yaml:"write_files,omitempty"`
	RunCmd           [][]string  `yaml:"runcmd,omitempty"` // argument vectors, run in order, once per instance
}

// User is a login.
type User struct {
	Name              string   `yaml:"name"`
	Gecos             string   `yaml:"gecos,omitempty"`
	Shell             string   `yaml:"shell,omitempty"`
	Groups            []string `yaml:"groups,omitempty"`
	Sudo              string   `yaml:"sudo,omitempty"`
	LockPassword      bool     `yaml:"lock_passwd"`
	HashedPassword    string   `yaml:"hashed_passwd,omitempty"`
	SSHAuthorizedKeys []string `yaml:"ssh_authorized_keys,omitempty"`
}

// APT configures the sources of packages.
type APT struct {
	Primary    []Mirror          `yaml:"primary,omitempty"`
	Security   []Mirror          `yaml:"security,omitempty"`
	HTTPProxy  string            `yaml:"http_proxy,omitempty"`
	HTTPSProxy string            `yaml:"https_proxy,omitempty"` // or DIRECT
	Sources    map[string]Source `yaml:"sources,omitempty"`     // by file name under /etc/apt/sources.list.d
}

// Mirror replaces the archive on some architectures ("default": all others).
type Mirror struct {
	Arches []string `yaml:"arches"`
	URI    string   `yaml:"uri"`
}

// Source is a further repository. In Source, "$KEY_FILE" is where cloud-init
// keeps Key, for use as [signed-by=$KEY_FILE].
type Source struct {
	Source string `yaml:"source"`
	Key    string `yaml:"key,omitempty"` // armoured public key
}

// WriteFile is a file. Make one with [File], which chooses the encoding.
type WriteFile struct {
	Path        string `yaml:"path"`
	Owner       string `yaml:"owner,omitempty"`
	Permissions string `yaml:"permissions"`
	Encoding    string `yaml:"encoding,omitempty"`
	Content     string `yaml:"content"`
	Defer       bool   `yaml:"defer,omitempty"` // write it late, when users and packages are there
}

// File is a file on the machine.
type File struct {
	Path    string // absolute
	Content []byte
	Mode    fs.FileMode // 0 means 0644
	Owner   string      // "user:group"; empty means root. With an owner the file is written after the users are created.
}

func (f File) write() (WriteFile, error) {
	if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path {
		return WriteFile{}, fmt.Errorf("file %q: want an absolute path without . or .. or a trailing slash", f.Path)
	}
	return f.encode(), nil
}

func (f File) encode() WriteFile {
	w := WriteFile{Path: f.Path, Owner: f.Owner, Permissions: fmt.Sprintf("%04o", cmp.Or(f.Mode.Perm(), 0o644)), Defer: f.Owner != ""}
	if utf8.Valid(f.Content) && (len(f.Content) == 0 || literal(string(f.Content))) {
		w.Content = string(f.Content)
	} else {
		w.Encoding, w.Content = "b64", base64.StdEncoding.EncodeToString(f.Content)
	}
	return w
}

// render returns the document that cloud-init reads, with its first line.
func (u UserData) render() ([]byte, error) {
	if u.Users == nil {
		u.Users = []User{}
	}
	b, err := marshal(u)
	if err != nil {
		return nil, fmt.Errorf("render user-data: %w", err)
	}
	return append([]byte("#cloud-config\n"), b...), nil
}

// MetaData identifies the machine. cloud-init repeats its once-per-instance work when the
// instance id changes.
type MetaData struct {
	InstanceID    string `yaml:"instance-id"`
	LocalHostname string `yaml:"local-hostname"`
}

// render returns the document that cloud-init reads.
func (m MetaData) render() ([]byte, error) {
	if strings.TrimSpace(m.InstanceID) == "" {
		return nil, errors.New("render meta-data: no instance id")
	}
	b, err := marshal(m)
	if err != nil {
		return nil, fmt.Errorf("render meta-data: %w", err)
	}
	return b, nil
}
