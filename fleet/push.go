package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/cps-gpu/homelab/converge"
)

// Repo is our folder in a Git repository, and its differences from a Tree.
type Repo struct {
	Commit  string        // of the branch; empty: the repository has no commit, or the branch does not exist yet
	Changes []Change      // what a push would commit
	Foreign []ForeignFile // what a push would not overwrite

	tip    tip
	folder plumbing.Hash // of our folder; zero if it does not exist
	parent *object.Commit
	have   Tree
	store  *memory.Storage
}

// Diff says what a push would change. Foreign changes are differences that a push does not
// fix; their note says why.
func (s *Repo) Diff() converge.Diff {
	d := diffOf(s.Changes)
	for _, f := range s.Foreign {
		d = append(d, converge.Field{Path: f.Path, Have: f.Reason, Want: "as rendered", Effect: converge.Update, Note: "a push stops here"})
	}
	return d
}

// Ours reports whether homelab has written our folder.
func (s *Repo) Ours() bool { return s.have[ListFile] != nil }

// Observe reads the repository: the commit of its branch, and how our folder differs from
// want. It writes nothing.
func (r Remote) Observe(ctx context.Context, want Tree) (*Repo, error) {
	p, err := r.address()
	if err != nil {
		return nil, err
	}
	repo, err := r.observe(ctx, p, want)
	return repo, r.explain(p, "look at branch "+r.branch(), err)
}

func (r Remote) observe(ctx context.Context, p place, want Tree) (*Repo, error) {
	folder, err := r.folder()
	if err != nil {
		return nil, err
	}
	converge.Progressf(ctx, "reading branch %s of %s", r.branch(), p.text)
	t, store, err := fetch(ctx, r.wire(p), r.branch(), r.Create)
	if err != nil {
		return nil, err
	}
	s := &Repo{tip: t, store: store, have: Tree{}}
	from := t.commit
	switch {
	case from.IsZero() && len(t.branches) == 0: // empty: the first commit is ours
	case from.IsZero() && (!r.Create || t.head.IsZero()): // HEAD may name a branch that does not exist
		return nil, &GitError{Repo: p.text, Doing: "look at branch " + r.branch(), Kind: ErrNoBranch,
			Hint: "there are " + strings.Join(t.branches, ", ") + "; name one of them (" + r.key("branch") + "), or make it: git push origin " + t.branches[0] + ":" + r.branch()}
	case from.IsZero():
		from = t.head
	}
	if !t.commit.IsZero() {
		s.Commit = t.commit.String()
	}
	if !from.IsZero() {
		if s.parent, err = object.GetCommit(store, from); err != nil {
			return nil, err
		}
		if s.have, s.folder, err = gitFolder(s.parent, folder); err != nil {
			return nil, err
		}
	}
	s.Changes, s.Foreign, err = merge(s.have, want)
	return s, err
}

// PushOptions configure a push.
type PushOptions struct {
	Message   string // of the commit; default: what changed
	Overwrite bool   // also overwrite foreign changes
	// Seen is the result of an earlier Observe: if our folder has changed since, nothing is
	// pushed. Nil accepts the state at the start of Push.
	Seen *Repo
}

// PushResult is the result of a push.
type PushResult struct {
	Commit  string // of the branch: ours, or the existing one
	Changes []Change
}

// tries is how often a push is retried when others push to the branch.
const tries = 5

// Push brings our folder in the repository to want, with one commit on top of the branch, or
// none if nothing differs. If the branch moves in between, it is read again: the commit is
// recreated on top, unless our folder changed, which is an error that names the foreign
// change. Push never forces.
func (r Remote) Push(ctx context.Context, want Tree, o PushOptions) (*PushResult, error) {
	p, err := r.address()
	if err != nil {
		return nil, err
	}
	done, err := r.push(ctx, p, want, o)
	return done, r.explain(p, "push to branch "+r.branch(), err)
}

func (r Remote) push(ctx context.Context, p place, want Tree, o PushOptions) (*PushResult, error) {
	seen := o.Seen
	for range tries {
		s, err := r.observe(ctx, p, want)
		if err != nil {
			return nil, err
		}
		changes, err := r.allowedChanges(p, s, seen, want, o)
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return &PushResult{Commit: s.Commit}, nil
		}
		seen = s
		commit, err := r.commitAndSend(ctx, p, s, changes, o)
		var refused *refusal
		if errors.As(err, &refused) {
			if _, kind := r.explainRefusal(refused); errors.Is(kind, ErrMoved) {
				converge.Progressf(ctx, "somebody pushed to %s in the meantime: checking again", r.branch())
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		return &PushResult{Commit: commit.String(), Changes: changes}, nil
	}
	return nil, &GitError{Repo: p.text, Doing: "push to branch " + r.branch(), Kind: ErrMoved, Hint: fmt.Sprintf("%d times in a row; run it again", tries)}
}

// allowedChanges returns the changes that may be made.
func (r Remote) allowedChanges(p place, s, seen *Repo, want Tree, o PushOptions) ([]Change, error) {
	if seen != nil && seen.folder != s.folder && !o.Overwrite && len(s.Changes) > 0 {
		e := &ForeignError{Where: p.text + ", branch " + r.branch()}
		for _, name := range differing(seen.have, s.have) {
			e.Files = append(e.Files, ForeignFile{name, "changed in between by " + commitText(s.parent)})
		}
		return nil, &GitError{Repo: p.text, Doing: "push to branch " + r.branch(), Kind: ErrMoved, Err: e}
	}
	if len(s.Foreign) > 0 {
		if !o.Overwrite {
			return nil, &ForeignError{Where: p.text + ", branch " + r.branch(), Files: s.Foreign}
		}
		return append(addForced(s.have, want, s.Foreign), s.Changes...), nil
	}
	return s.Changes, nil
}

// commitText describes a commit for people.
func commitText(c *object.Commit) string {
	if c == nil {
		return "somebody"
	}
	return fmt.Sprintf("%s (or before it: commit %.12s, %s)", oneLine(c.Author.Name), c.Hash, oneLine(strings.SplitN(c.Message, "\n", 2)[0]))
}

func differing(a, b Tree) []string {
	var out []string
	all := Tree{}
	maps.Copy(all, a)
	maps.Copy(all, b)
	for _, name := range all.Names() {
		if string(a[name]) != string(b[name]) || (a[name] == nil) != (b[name] == nil) {
			out = append(out, name)
		}
	}
	return out
}

// commitAndSend creates the commit and pushes it. If the connection is lost, it reads the
// branch again to see whether the server accepted the commit.
func (r Remote) commitAndSend(ctx context.Context, p place, s *Repo, changes []Change, o PushOptions) (plumbing.Hash, error) {
	author, err := r.author()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	message := o.Message
	if message == "" {
		message = r.messageOf(changes)
	}
	folder, err := r.folder()
	if err != nil {
		return plumbing.ZeroHash, err
	}
	who := object.Signature{Name: author.Name, Email: author.Address, When: time.Now()}
	hash, objects, err := commit(s, folder, changes, message, who)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	converge.Progressf(ctx, "pushing %.12s to branch %s", hash, r.branch())
	err = send(ctx, r.wire(p), r.branch(), s.tip.commit, hash, objects, s.store)
	if err == nil || ctx.Err() != nil || !errors.Is(r.explain(p, "", err), ErrLost) {
		return hash, err
	}
	t, _, again := fetch(ctx, r.wire(p), r.branch(), false)
	switch {
	case again == nil && t.commit == hash:
		return hash, nil
	case again == nil && t.commit == s.tip.commit:
		return hash, &GitError{Repo: p.text, Doing: "push to branch " + r.branch(), Kind: ErrLost, Err: err, Hint: "the branch did not change: run it again"}
	case again == nil:
		return hash, &refusal{status: "fetch first"}
	}
	return hash, &GitError{Repo: p.text, Doing: "push to branch " + r.branch(), Kind: ErrLost, Err: err,
		Hint: "it is not known whether the server accepted the commit: run it again, it checks first"}
}

// messageOf says what changed, by directory.
func (r Remote) messageOf(changes []Change) string {
	var names []string
	seen := map[string]bool{}
	var body strings.Builder
	for _, c := range changes {
		if c.Path == ListFile {
			continue
		}
		fmt.Fprintf(&body, "\n%s %s", c.What, c.Path)
		if dir, _, ok := strings.Cut(c.Path, "/"); ok && !seen[dir] {
			seen[dir] = true
			names = append(names, dir)
		}
	}
	const few = 4
	subject := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		subject = "README"
	case len(names) > few:
		subject = fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
	}
	return string(r.Tool.orDefault()) + ": " + subject + "\n" + body.String() + "\n"
}
