package main

import (
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/sim/pvesim"
)

// folder is the folder of secrets, in files of mode 0600: no output shows them.
type folder struct {
	dir         string
	ours        bool // created here, and deleted at the end
	token       string
	endpoint    string
	fingerprint string
	proxy       string // to the guests, where asked for
	ssh         string // to the first node, likewise
}

// rootToken is the token for other tools: with all privileges, although Proxmox still refuses
// some requests of a token.
const rootToken = "root@pam!pvesim"

// Files of the folder.
const (
	tokenFile     = "token"
	rootTokenFile = "root-token"
	passwordFile  = "root-password"
	certFile      = "ca.pem"
	envFile       = "env"
	sshKeyFile    = "ssh-key"
	knownFile     = "known_hosts"
)

func makeFolder(dir string) (*folder, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", "pvesim-")
		return &folder{dir: made, ours: true}, err
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &folder{dir: abs}, os.MkdirAll(abs, 0o700)
}

func (f *folder) close() {
	if f.ours {
		_ = os.RemoveAll(f.dir)
	}
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

func (f *folder) write(name, content string) error {
	if err := os.Remove(f.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) { // its mode may be another
		return err
	}
	return os.WriteFile(f.path(name), []byte(content), 0o600)
}

// secrets generates root's password and a token, and secrets for the model's tokens that have
// none or the preset's, and writes them to files.
func (f *folder) secrets(m *pvesim.Model) error {
	m.Tokens = slices.DeleteFunc(m.Tokens, func(t pvesim.Token) bool { return t.ID == rootToken })
	m.Tokens = append(m.Tokens, pvesim.Token{ID: rootToken})
	for i := range m.Tokens {
		if t := &m.Tokens[i]; t.Secret == "" || t.Secret == pvesim.EightA100().Tokens[0].Secret {
			t.Secret = uuid()
		}
	}
	f.token = m.Tokens[0].ID
	password := rand.Text()
	i := slices.IndexFunc(m.Users, func(u pvesim.User) bool { return u.ID == "root@pam" })
	switch {
	case i < 0:
		m.Users = append(m.Users, pvesim.User{ID: "root@pam", Password: password})
	case m.Users[i].Password == "":
		m.Users[i].Password = password
	default:
		password = m.Users[i].Password
	}
	return errors.Join(
		f.write(tokenFile, m.Tokens[0].Secret+"\n"),
		f.write(rootTokenFile, m.Tokens[len(m.Tokens)-1].Secret+"\n"),
		f.write(passwordFile, password+"\n"))
}

func (f *folder) certificate(der []byte) error {
	return f.write(certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
}

// environment writes the block as a file for `source`.
func (f *folder) environment() error { return f.write(envFile, f.String()) }

// String returns the block to paste: shell variables with comments. It reads secrets from
// their files when it runs.
func (f *folder) String() string {
	cat := func(name string) string { return "$(cat '" + f.path(name) + "')" }
	lines := []string{
		"# endpoint     " + f.endpoint,
		"# fingerprint  " + f.fingerprint,
		"# token        " + f.token + ", its secret in " + f.path(tokenFile),
		"# root token   " + rootToken + ", its secret in " + f.path(rootTokenFile),
		"# login        root@pam, its password in " + f.path(passwordFile),
		"# certificate  " + f.path(certFile),
	}
	if f.proxy != "" {
		lines = append(lines, "# guests       "+f.proxy)
	}
	if f.ssh != "" {
		lines = append(lines, "# ssh          ssh -i '"+f.path(sshKeyFile)+"' -o UserKnownHostsFile='"+f.path(knownFile)+"' "+f.ssh)
	}
	lines = append(lines, "#",
		"# source '"+f.path(envFile)+"'",
		"# OpenTofu and Terraform with the bpg provider:",
		"export PROXMOX_VE_ENDPOINT="+f.endpoint+"/",
		`export PROXMOX_VE_API_TOKEN="`+rootToken+"="+cat(rootTokenFile)+`"`,
		"export PROXMOX_VE_INSECURE=true",
		"# go-proxmox and curl:",
		"export PROXMOX_URL="+f.endpoint+"/api2/json",
		"export PROXMOX_TOKENID='"+rootToken+"'",
		`export PROXMOX_SECRET="`+cat(rootTokenFile)+`"`,
		"# a cluster.yaml of this project, with endpoint, token, fingerprint, and secret: env:PROXMOX_TOKEN_SECRET",
		`export PROXMOX_TOKEN_SECRET="`+cat(tokenFile)+`"`)
	return strings.Join(lines, "\n") + "\n"
}

// uuid returns a secret in the form of a token's.
func uuid() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
