package guest_test

import (
	"io"
	"os"
	"testing"

	"github.com/pkg/sftp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	xssh "golang.org/x/crypto/ssh"
)

// TestSFTP goes through what clients do with files, in the order in which upload tools do.
func TestSFTP(t *testing.T) {
	m, n, key := machine(t, 200)
	conn, err := n.Dial(t.Context(), "tcp", address)
	require.NoError(t, err)
	c, channels, requests, err := xssh.NewClientConn(conn, address, &xssh.ClientConfig{
		User: "admin", Auth: []xssh.AuthMethod{xssh.PublicKeys(key)}, HostKeyCallback: xssh.InsecureIgnoreHostKey()})
	require.NoError(t, err)
	login := xssh.NewClient(c, channels, requests)
	defer func() { _ = login.Close() }()
	files, err := sftp.NewClient(login)
	require.NoError(t, err)
	defer func() { _ = files.Close() }()

	home, err := files.Getwd()
	require.NoError(t, err)
	assert.Equal(t, "/home/admin", home)
	require.NoError(t, files.MkdirAll("/home/admin/a/b"))
	f, err := files.Create("a/b/file")
	require.NoError(t, err)
	_, err = f.Write([]byte("some text"))
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("more"), 0)
	require.NoError(t, err)
	require.NoError(t, f.Truncate(6))
	require.NoError(t, f.Close())
	require.NoError(t, files.Chmod("/home/admin/a/b/file", 0o640))
	data, err := m.AgentReadFile("/home/admin/a/b/file")
	require.NoError(t, err)
	assert.Equal(t, "more t", string(data))

	f, err = files.Open("/home/admin/a/b/file")
	require.NoError(t, err)
	data, err = io.ReadAll(f)
	require.NoError(t, err)
	assert.Equal(t, "more t", string(data))
	about, err := f.Stat()
	require.NoError(t, err)
	assert.Equal(t, []any{int64(6), os.FileMode(0o640)}, []any{about.Size(), about.Mode()})

	require.NoError(t, files.Symlink("/home/admin/a/b/file", "/home/admin/link"))
	target, err := files.ReadLink("/home/admin/link")
	require.NoError(t, err)
	assert.Equal(t, "/home/admin/a/b/file", target)
	require.NoError(t, files.PosixRename("/home/admin/link", "/home/admin/a/link"))
	entries, err := files.ReadDir("/home/admin/a")
	require.NoError(t, err)
	assert.Equal(t, []string{"b", "link"}, []string{entries[0].Name(), entries[1].Name()})
	require.NoError(t, files.RemoveAll("/home/admin/a"))

	_, err = files.Open("/home/admin/a/b/file")
	assert.ErrorIs(t, err, os.ErrNotExist)
	_, err = files.Create("/etc/nothing")
	assert.ErrorIs(t, err, os.ErrPermission, "admin is not root")
	assert.ErrorIs(t, files.Remove("/etc/passwd"), os.ErrPermission)
}
