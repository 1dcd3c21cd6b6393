package advance

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfastdb/holdfast/core/entry"
	"github.com/holdfastdb/holdfast/core/node"
)

// TestTheLeaderSaysForHowLongWhatEndsIsKept: in its own words whenever it leads, once; a refusal is said once and tried again.
func TestTheLeaderSaysForHowLongWhatEndsIsKept(t *testing.T) {
	const hour, day = 3_600_000, 86_400_000
	h := newHouse(t)
	told := &lines{}
	first := h.lead(1, Options{RetentionMs: hour, Logger: slog.New(slog.NewTextHandler(told, nil))})
	refusals := make(chan struct{}, 100)
	below := true
	first.OnPropose(func(parts []entry.Part) (*entry.Result, error) {
		if below {
			below = false
			refusals <- struct{}{}
			return nil, fmt.Errorf("saga part: %w", node.ErrLevel)
		}
		return h.apply(parts)
	})
	first.Run(t, first.w.RunRetention)
	<-refusals
	eventually(t, "it is kept for an hour", func() bool { return h.m.Retention() == hour })
	h.logged("retain")
	first.Lead(0)

	second := h.lead(2, Options{})
	second.Run(t, second.w.RunRetention)
	eventually(t, "the next leader has no setting, and it is kept for a day", func() bool { return h.m.Retention() == day })
	h.logged("retain")
	second.Lead(3) // the same again is nothing
	second.Lead(0)
	third := h.lead(4, Options{RetentionMs: hour})
	third.OnPropose(func(parts []entry.Part) (*entry.Result, error) { return nil, errors.New("no") })
	third.Run(t, third.w.RunRetention)
	third.Lead(0) // it gives up as soon as it does not lead
	third.Stop()
	if h.logged(); h.m.Retention() != day {
		t.Errorf("%d ms", h.m.Retention())
	}
	eventually(t, "both lines are there", func() bool {
		text := told.text()
		return strings.Count(text, "is not changed yet") == 1 && strings.Contains(text, "retention="+time.Hour.String()) && strings.Contains(text, "was="+(24*time.Hour).String())
	})
}
