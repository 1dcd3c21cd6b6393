package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/holdfastdb/holdfast/core/peer"
)

// answering is a Transport of which only Ask is used.
type answering struct {
	Transport
	at    map[string]func() ([]byte, error)
	asked []string
}

func (a *answering) Ask(_ context.Context, addr string, _ []byte) ([]byte, error) {
	a.asked = append(a.asked, addr)
	return a.at[addr]()
}

// A process that joins asks at one address after the other. After a transient refusal the next address is asked; one that is
// for good is the answer.
func TestTheNextAddressIsAskedUnlessTheRefusalIsForGood(t *testing.T) {
	taken := func() ([]byte, error) { return []byte(`{"cluster":"7","member":"9"}`), nil }
	refused := func(why string) func() ([]byte, error) {
		return func() ([]byte, error) { return nil, fmt.Errorf("%w: %s", peer.ErrRefused, why) }
	}
	for _, c := range []struct {
		first func() ([]byte, error)
		asked string
		err   error
	}{
		{refused(ErrNoLeader.Error() + ": context deadline exceeded"), "a:1 b:1", nil},
		{refused(errNotReady.Error()), "a:1 b:1", nil},
		{func() ([]byte, error) { return nil, errors.New("connection refused") }, "a:1 b:1", nil},
		{refused("another cluster"), "a:1", peer.ErrRefused},
		{taken, "a:1", nil},
	} {
		net := &answering{at: map[string]func() ([]byte, error){"a:1": c.first, "b:1": taken}}
		a, err := askAny[joinAnswer](t.Context(), net, "a:1,b:1", &question{Kind: "join"})
		if asked := strings.Join(net.asked, " "); asked != c.asked || !errors.Is(err, c.err) || err == nil && a.Member != 9 {
			t.Errorf("asked %s, want %s; %v, %v", asked, c.asked, a, err)
		}
	}
}
