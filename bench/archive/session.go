package main

import (
	"context"

	"google.golang.org/grpc/metadata"
)

// storedSession makes a request one that is answered when the archive has what it wrote.
func storedSession(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "holdfast-ack", "archive")
}
