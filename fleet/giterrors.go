package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// Errors of a Git repository that a caller may act on; compare with errors.Is. The server's
// message is wrapped too.
var (
	ErrCredentials  = errors.New("the Git server refuses the login")
	ErrHostKey      = errors.New("the Git server is not the one that is known")
	ErrNoRepository = errors.New("there is no such Git repository")
	ErrNoBranch     = errors.New("the Git repository has no such branch")
	ErrMoved        = errors.New("another push moved the branch")
	ErrRefused      = errors.New("the Git server refused the commit")
	ErrLost         = errors.New("the connection to the Git server was lost")
)

// GitError says that a Git repository could not be read or written.
type GitError struct {
	Repo  string // its URL, without secrets
	Doing string // e.g. "push to main"
	Kind  error  // one of the errors above, nil when none fits
	Hint  string // what to do, where we know
	Err   error  // what came back; may be nil
}

// Error returns what was done, what came back, and what to do.
func (e *GitError) Error() string {
	s := fmt.Sprintf("%s of %s", e.Doing, e.Repo)
	if e.Kind != nil {
		s += ": " + e.Kind.Error()
	}
	if e.Err != nil {
		s += ": " + strings.TrimSpace(e.Err.Error())
	}
	if e.Hint != "" {
		s += ": " + e.Hint
	}
	return s
}

// Unwrap gives errors.Is and errors.As both the kind and the cause.
func (e *GitError) Unwrap() []error {
	var out []error
	for _, err := range []error{e.Kind, e.Err} {
		if err != nil {
			out = append(out, err)
		}
	}
	return out
}

// statusError is an error response of a Git server over HTTP.
type statusError struct {
	code int
	text string // its message, as one line
}

func (e *statusError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s %s", e.code, http.StatusText(e.code), e.text))
}

// refusal says that a Git server received a commit and rejected it.
type refusal struct{ status, said string }

func (e *refusal) Error() string { return strings.TrimSpace(e.status + " " + e.said) }

// explain classifies an error. Everything that this package knows about failures of Git
// servers is here.
func (r Remote) explain(p place, doing string, err error) error {
	if err == nil {
		return nil
	}
	if known := (*GitError)(nil); errors.As(err, &known) {
		return err
	}
	e := &GitError{Repo: p.text, Doing: doing, Err: err}
	var (
		status  *statusError
		auth    *ssh.AuthError
		hostKey *ssh.HostKeyError
		exit    *remote.ExitError
		lost    *ssh.LostError
		refused *refusal
		nobody  *ssh.UnreachableError
		network net.Error
	)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &status):
		e.Hint, e.Kind = r.explainStatus(status.code)
	case errors.As(err, &auth) && errors.Is(err, io.ErrUnexpectedEOF): // it ended before the login
		e.Kind, e.Err = ErrLost, auth.Err
	case errors.As(err, &auth):
		e.Kind = ErrCredentials
	case errors.As(err, &hostKey):
		e.Kind = ErrHostKey
	case errors.As(err, &refused):
		e.Hint, e.Kind = r.explainRefusal(refused)
	case errors.As(err, &exit) && unknownRepository(exit.Stderr):
		e.Kind, e.Hint = ErrNoRepository, "create it on the server, or correct the URL; servers also answer this to hide a repository from a key that may not see it"
	case errors.As(err, &lost), errors.As(err, &nobody), errors.As(err, &network), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		e.Kind = ErrLost
	}
	return e
}

func (r Remote) explainStatus(code int) (hint string, kind error) {
	switch code {
	case http.StatusUnauthorized:
		if r.Password.IsZero() {
			return "it needs a user name and a password or token: give them by reference (" + r.key("username") + ", " + r.key("password") + ")", ErrCredentials
		}
		return "user name or password are wrong, or the token has expired", ErrCredentials
	case http.StatusForbidden:
		return "the user may not do this: its token needs the right to write the repository's contents", ErrCredentials
	case http.StatusNotFound:
		return "create it on the server, or correct the URL; servers also answer this to hide a repository from a user who may not see it", ErrNoRepository
	}
	return "", nil
}

// unknownRepository has the messages by which Git and common servers report a missing
// repository over SSH.
func unknownRepository(said string) bool {
	said = strings.ToLower(said)
	for _, words := range []string{"does not appear to be a git repository", "repository not found", "repository does not exist", "no such repository", "could not be found", "could not find repository"} {
		if strings.Contains(said, words) {
			return true
		}
	}
	return false
}

// explainRefusal distinguishes a branch that another push moved from a commit that the server
// rejects. The messages are those of git-receive-pack (builtin/receive-pack.c) and
// git-send-pack.
func (r Remote) explainRefusal(e *refusal) (hint string, kind error) {
	for _, words := range []string{"failed to lock", "failed to update ref", "cannot lock ref", "fetch first", "non-fast-forward", "reference already exists", "stale info"} {
		if strings.Contains(e.status, words) {
			return "", ErrMoved
		}
	}
	return "if the branch is protected, push to another (" + r.key("branch") + ") and open a pull request from there", ErrRefused
}
