package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// Root logs in to the node.
func TestRootsShell(t *testing.T) {
	s := serve(t, "-model", "one-gpu", "-ssh", "127.0.0.1:0")
	private, err := os.ReadFile(filepath.Join(s.dir, "ssh-key"))
	require.NoError(t, err)
	signer, err := ssh.ParsePrivateKey(private)
	require.NoError(t, err)
	at := s.said[strings.Index(s.said, "# ssh"):]
	port := strings.Fields(at[strings.Index(at, " -p "):])[1]
	known, err := knownhosts.New(filepath.Join(s.dir, "known_hosts"))
	require.NoError(t, err)
	c, err := ssh.Dial("tcp", "127.0.0.1:"+port, &ssh.ClientConfig{User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: known})
	require.NoError(t, err)
	session, err := c.NewSession()
	require.NoError(t, err)
	out, err := session.Output("pveversion")
	require.NoError(t, err)
	assert.Contains(t, string(out), "pve-manager/9.")
	require.NoError(t, c.Close())
}

// A download finds a file of one's own, whatever the host in its URL.
func TestInternetOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	image := bytes.Repeat([]byte{0}, 1<<16)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.iso"), image, 0o600))
	s := serve(t, "-model", "one-gpu", "-internet", dir)
	token := "root@pam!pvesim=" + s.file("root-token")
	sum := sha256.Sum256(image)
	status, reason, body := s.ask("POST", "/nodes/pve1/storage/local/download-url?content=iso&filename=mine.iso&checksum-algorithm=sha256&checksum="+
		hex.EncodeToString(sum[:])+"&url=https://images.example/a/mine.iso", token)
	require.Equal(t, "200", status, reason+body)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, _, body := s.ask("GET", "/nodes/pve1/storage/local/content", token)
		assert.Contains(c, body, "local:iso/mine.iso")
	}, 10*time.Second, 50*time.Millisecond)
	_, talk := runs(t, misused, "-internet", filepath.Join(dir, "nothing"))
	assert.Contains(t, talk, "name a folder")
}

func TestVersion(t *testing.T) {
	out, _ := runs(t, ok, "-version")
	assert.Regexp(t, `^pvesim \S+, plays Proxmox VE 9\.\d+\.\d+\n$`, out)
}
