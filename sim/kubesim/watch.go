package kubesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	watchTime    = 30 * time.Minute // the longest of a client that names none: --min-request-timeout
	bookmarkTime = time.Minute      // between bookmarks
)

// watcher is one request that watches.
type watcher struct {
	c         *Cluster
	t         target
	which     selection
	view      view
	bookmarks bool
	seen      int64 // the version up to which everything was sent
	initial   []*entry
	lists     bool // the client lists by this watch, and waits for the end of the list
	out       *json.Encoder
	flush     func() error
}

// newWatcher reads a request. The lock is held.
func (c server) newWatcher(t target, v view) (*watcher, error) {
	which, err := t.selection()
	if err != nil {
		return nil, err
	}
	w := &watcher{c: c.Cluster, t: t, which: which, view: v, bookmarks: t.query.Get("allowWatchBookmarks") == "true", seen: c.version}
	version := t.query.Get("resourceVersion")
	switch initial := t.query.Get("sendInitialEvents"); {
	case initial != "" && t.query.Get("resourceVersionMatch") != string(metav1.ResourceVersionMatchNotOlderThan):
		return nil, apierrors.NewInvalid(metav1.SchemeGroupVersion.WithKind("ListOptions").GroupKind(), "", field.ErrorList{field.Forbidden(
			field.NewPath("resourceVersionMatch"), "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")})
	case initial == "true":
		w.lists = true
	case initial == "" && version != "" && version != "0":
		if w.seen, err = strconv.ParseInt(version, 10, 64); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version %q", version))
		}
		return w, nil
	case initial == "false":
		return w, nil
	}
	for _, e := range c.all(t.kind.id()) {
		if which.has(e) {
			w.initial = append(w.initial, e)
		}
	}
	return w, nil
}

// serve sends events until the client goes, its time is over, or the cluster ends.
func (w *watcher) serve(rw http.ResponseWriter, r *http.Request) {
	limit := watchTime
	if s, err := strconv.Atoi(w.t.query.Get("timeoutSeconds")); err == nil && s > 0 {
		limit = time.Duration(s) * time.Second
	}
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(bookmarkTime)
	defer tick.Stop()
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusOK)
	w.out, w.flush = json.NewEncoder(rw), http.NewResponseController(rw).Flush
	err := w.begin()
	for err == nil {
		var news <-chan struct{}
		if news, err = w.catchUp(); err != nil {
			break
		}
		select {
		case <-r.Context().Done():
			return
		case <-w.c.ctx.Done():
			return
		case <-end.C:
			return
		case <-tick.C:
			if w.bookmarks {
				err = errors.Join(w.send(watch.Bookmark, bookmark(w.t.kind, w.seen, false)), w.flush())
			}
		case <-news:
		}
	}
}

// begin sends what is there already.
func (w *watcher) begin() error {
	for _, e := range w.initial {
		if err := w.send(watch.Added, e.obj); err != nil {
			return err
		}
	}
	w.initial = nil
	if w.lists && w.bookmarks {
		if err := w.send(watch.Bookmark, bookmark(w.t.kind, w.seen, true)); err != nil {
			return err
		}
	}
	return w.flush()
}

// errGone ends a watch whose next changes are no longer known.
var errGone = errors.New("too old")

// catchUp sends the changes since the last, and returns what the next one closes.
func (w *watcher) catchUp() (<-chan struct{}, error) {
	w.c.mu.Lock()
	h := w.c.historyOf(w.t.kind.id())
	changes, known := h.after(w.seen)
	known = known && w.seen <= w.c.version
	news, version := h.next(), w.c.version
	w.c.mu.Unlock()
	if !known {
		gone := apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", w.seen, h.lost)).Status()
		gone.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		_ = w.out.Encode(map[string]any{"type": watch.Error, "object": gone})
		return nil, errors.Join(errGone, w.flush())
	}
	sent := false
	for _, ch := range changes {
		if kind, obj, seen := w.which.event(ch); seen {
			sent = true
			if err := w.send(kind, obj); err != nil {
				return nil, err
			}
		}
	}
	w.seen = version
	if sent {
		return news, w.flush()
	}
	return news, nil
}

func (w *watcher) send(kind watch.EventType, obj map[string]any) error {
	var out any = obj
	if kind != watch.Bookmark || w.view.table {
		out = w.view.event(w.t.kind, w.t.kind.as(obj))
	}
	return w.out.Encode(map[string]any{"type": kind, "object": out})
}
