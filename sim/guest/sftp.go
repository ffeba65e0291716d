package guest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/pkg/sftp"
)

// serveSFTP is sshd's sftp-server: the machine's files, as the user may have them.
func (s *system) serveSFTP(_ context.Context, name string, stream io.ReadWriteCloser) int {
	u := findUser(s.root(), name)
	if u == nil {
		return 1
	}
	files := sftpFiles{s.viewAs(u, s.m.mutated), u.home}
	server := sftp.NewRequestServer(stream, sftp.Handlers{FileGet: files, FilePut: files, FileCmd: files, FileList: files},
		sftp.WithStartDirectory(u.home))
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return 255
	}
	return 0
}

// sftpFiles answer the requests of one session. Paths that do not begin with a slash begin
// at home.
type sftpFiles struct {
	v    *view
	home string
}

func (f sftpFiles) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	if _, err := f.v.readFile(r.Filepath); err != nil {
		return nil, err
	}
	return sftpFile{f.v, r.Filepath}, nil
}

func (f sftpFiles) Filewrite(r *sftp.Request) (io.WriterAt, error) { return f.OpenFile(r) }

// OpenFile implements [sftp.OpenFileWriter].
func (f sftpFiles) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	flags := r.Pflags()
	_, err := f.v.stat(r.Filepath)
	switch {
	case err == nil && flags.Creat && flags.Excl:
		return nil, fail("open", r.Filepath, syscall.EEXIST)
	case err != nil && !flags.Creat:
		return nil, err
	}
	p, err := f.v.open(r.Filepath, 0o644, flags.Trunc)
	if err != nil {
		return nil, err
	}
	return sftpFile{f.v, p}, nil
}

// sftpFile is an open file; what its bytes are is looked up at each request.
type sftpFile struct {
	v    *view
	path string
}

func (f sftpFile) ReadAt(p []byte, off int64) (int, error) {
	data, err := f.v.readFile(f.path)
	if err != nil {
		return 0, err
	}
	if off >= int64(len(data)) {
		return 0, io.EOF
	}
	n := copy(p, data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// sftpMost is how large a file may get: it is held in memory.
const sftpMost = 1 << 30

func (f sftpFile) WriteAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > sftpMost {
		return 0, fail("write", f.path, syscall.EFBIG)
	}
	err := f.v.edit("write", f.path, func(n *inode) {
		if off == int64(len(n.data)) {
			n.data = append(n.data, p...)
			return
		}
		data := make([]byte, max(int64(len(n.data)), off+int64(len(p))))
		copy(data, n.data)
		copy(data[off:], p)
		n.data = data
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f sftpFiles) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return f.setstat(r)
	case "Rename":
		if _, err := f.v.lstat(r.Target); err == nil {
			return fail("rename", r.Target, syscall.EEXIST) // sftp-server links and unlinks
		}
		return f.v.rename(r.Filepath, r.Target)
	case "Rmdir", "Remove":
		e, err := f.v.lstat(r.Filepath)
		switch {
		case err != nil:
			return err
		case e.IsDir() != (r.Method == "Rmdir"):
			return fail("remove", r.Filepath, map[bool]error{true: syscall.EISDIR, false: syscall.ENOTDIR}[e.IsDir()])
		}
		return f.v.remove(r.Filepath)
	case "Mkdir":
		return f.v.mkdir(r.Filepath, 0o777)
	case "Symlink":
		return f.v.symlink(r.Filepath, r.Target)
	}
	return sftp.ErrSSHFxOpUnsupported
}

// PosixRename implements [sftp.PosixRenameFileCmder]: what was there is replaced.
func (f sftpFiles) PosixRename(r *sftp.Request) error { return f.v.rename(r.Filepath, r.Target) }

// setstat changes size, mode and owner; times are those of the changes.
func (f sftpFiles) setstat(r *sftp.Request) error {
	flags, to := r.AttrFlags(), r.Attributes()
	if flags.Size {
		if to.Size > sftpMost {
			return fail("truncate", r.Filepath, syscall.EFBIG)
		}
		p, err := f.v.open(r.Filepath, 0o644, false)
		if err != nil {
			return err
		}
		err = f.v.edit("truncate", p, func(n *inode) {
			data := make([]byte, to.Size)
			copy(data, n.data)
			n.data = data
		})
		if err != nil {
			return err
		}
	}
	if flags.Permissions {
		if err := f.v.chmod(r.Filepath, to.FileMode().Perm()); err != nil {
			return err
		}
	}
	if flags.UidGid {
		return f.v.chown(r.Filepath, int(to.UID), int(to.GID))
	}
	return nil
}

// listed are the entries of an answer.
type listed []fs.FileInfo

// ListAt implements [sftp.ListerAt].
func (l listed) ListAt(to []fs.FileInfo, off int64) (int, error) {
	if off >= int64(len(l)) {
		return 0, io.EOF
	}
	n := copy(to, l[off:])
	if n < len(to) {
		return n, io.EOF
	}
	return n, nil
}

func (f sftpFiles) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	if r.Method != "List" {
		e, err := f.v.stat(r.Filepath)
		if err != nil {
			return nil, err
		}
		return listed{e}, nil
	}
	entries, err := f.v.readDir(r.Filepath)
	if err != nil {
		return nil, err
	}
	out := listed{}
	for _, e := range entries {
		out = append(out, e)
	}
	return out, nil
}

// Lstat implements [sftp.LstatFileLister].
func (f sftpFiles) Lstat(r *sftp.Request) (sftp.ListerAt, error) {
	e, err := f.v.lstat(r.Filepath)
	if err != nil {
		return nil, err
	}
	return listed{e}, nil
}

// RealPath implements [sftp.RealPathFileLister].
func (f sftpFiles) RealPath(name string) (string, error) {
	if !path.IsAbs(name) {
		name = path.Join(f.home, name)
	}
	return f.v.resolve(name, true)
}

// Readlink implements [sftp.ReadlinkFileLister].
func (f sftpFiles) Readlink(name string) (string, error) {
	e, err := f.v.lstat(name)
	switch {
	case err != nil:
		return "", err
	case e.Mode()&fs.ModeSymlink == 0:
		return "", fail("readlink", name, syscall.EINVAL)
	}
	return string(e.node.data), nil
}
