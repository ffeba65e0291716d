package sshd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"syscall"

	"github.com/pkg/sftp"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// serveSFTP is sshd's sftp-server: the machine's files, as the user may have them.
func serveSFTP(_ context.Context, s *machine.System, name string, stream io.ReadWriteCloser) int {
	u := disk.FindUser(s.Root(), name)
	if u == nil {
		return 1
	}
	files := sftpFiles{s.ViewAs(u, s.Mutated), u.Home}
	server := sftp.NewRequestServer(stream, sftp.Handlers{FileGet: files, FilePut: files, FileCmd: files, FileList: files},
		sftp.WithStartDirectory(u.Home))
	if err := server.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return 255
	}
	return 0
}

// sftpFiles answer the requests of one session. Paths that do not begin with a slash begin
// at home.
type sftpFiles struct {
	v    *disk.View
	home string
}

func (f sftpFiles) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	if _, err := f.v.ReadFile(r.Filepath); err != nil {
		return nil, err
	}
	return sftpFile{f.v, r.Filepath}, nil
}

func (f sftpFiles) Filewrite(r *sftp.Request) (io.WriterAt, error) { return f.OpenFile(r) }

// OpenFile implements [sftp.OpenFileWriter].
func (f sftpFiles) OpenFile(r *sftp.Request) (sftp.WriterAtReaderAt, error) {
	flags := r.Pflags()
	_, err := f.v.Stat(r.Filepath)
	switch {
	case err == nil && flags.Creat && flags.Excl:
		return nil, disk.PathError("open", r.Filepath, syscall.EEXIST)
	case err != nil && !flags.Creat:
		return nil, err
	}
	p, err := f.v.Open(r.Filepath, 0o644, flags.Trunc)
	if err != nil {
		return nil, err
	}
	return sftpFile{f.v, p}, nil
}

// sftpFile is an open file; what its bytes are is looked up at each request.
type sftpFile struct {
	v    *disk.View
	path string
}

func (f sftpFile) ReadAt(p []byte, off int64) (int, error) {
	data, err := f.v.ReadFile(f.path)
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
		return 0, disk.PathError("write", f.path, syscall.EFBIG)
	}
	if err := f.v.WriteAt(f.path, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f sftpFiles) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Setstat":
		return f.setstat(r)
	case "Rename":
		if _, err := f.v.Lstat(r.Target); err == nil {
			return disk.PathError("rename", r.Target, syscall.EEXIST) // sftp-server links and unlinks
		}
		return f.v.Rename(r.Filepath, r.Target)
	case "Rmdir", "Remove":
		e, err := f.v.Lstat(r.Filepath)
		switch {
		case err != nil:
			return err
		case e.IsDir() != (r.Method == "Rmdir"):
			return disk.PathError("remove", r.Filepath, map[bool]error{true: syscall.EISDIR, false: syscall.ENOTDIR}[e.IsDir()])
		}
		return f.v.Remove(r.Filepath)
	case "Mkdir":
		return f.v.Mkdir(r.Filepath, 0o777)
	case "Symlink":
		return f.v.Symlink(r.Filepath, r.Target)
	}
	return sftp.ErrSSHFxOpUnsupported
}

// PosixRename implements [sftp.PosixRenameFileCmder]: what was there is replaced.
func (f sftpFiles) PosixRename(r *sftp.Request) error { return f.v.Rename(r.Filepath, r.Target) }

// setstat changes size, mode and owner; times are those of the changes.
func (f sftpFiles) setstat(r *sftp.Request) error {
	flags, to := r.AttrFlags(), r.Attributes()
	if flags.Size {
		if to.Size > sftpMost {
			return disk.PathError("truncate", r.Filepath, syscall.EFBIG)
		}
		p, err := f.v.Open(r.Filepath, 0o644, false)
		if err != nil {
			return err
		}
		if err := f.v.Resize(p, int64(to.Size)); err != nil {
			return err
		}
	}
	if flags.Permissions {
		if err := f.v.Chmod(r.Filepath, to.FileMode().Perm()); err != nil {
			return err
		}
	}
	if flags.UidGid {
		return f.v.Chown(r.Filepath, int(to.UID), int(to.GID))
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
		e, err := f.v.Stat(r.Filepath)
		if err != nil {
			return nil, err
		}
		return listed{e}, nil
	}
	entries, err := f.v.ReadDir(r.Filepath)
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
	e, err := f.v.Lstat(r.Filepath)
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
	return f.v.Resolve(name, true)
}

// Readlink implements [sftp.ReadlinkFileLister].
func (f sftpFiles) Readlink(name string) (string, error) {
	e, err := f.v.Lstat(name)
	switch {
	case err != nil:
		return "", err
	case e.Mode()&fs.ModeSymlink == 0:
		return "", disk.PathError("readlink", name, syscall.EINVAL)
	}
	return e.Target(), nil
}
