// Package serverlog follows the logs of inference servers and reads what they tell of real traffic: acceptance of batches,
// intervals and requests, lengths of prompts, and events. It never feeds a sample of the prober: a line of a batch mixes all
// requests since the line before, whoever sent them.
//
// # What the follower of a file guarantees
//
// It looks at the file a few times a second and begins at its end: what was written before it started is not read, unless the
// file was not there then. A line counts once its line feed has come.
//
//   - Rename rotation, symlink swap, deletion and return: a new file at the path is read from its beginning; the one before is
//     read on until it has been quiet for a while, since its writer may not have noticed. Nothing is lost or read twice, if no
//     file comes and goes again between two looks.
//   - Truncation, copytruncate among it: a file that is shorter than what was read of it, or of which the latest bytes that were
//     read have changed, is read from its beginning. Lines that are written between the last look and the truncation are lost,
//     as they are to every follower. A file that between two looks was cut and written anew with the very same bytes up to where
//     it was read cannot be told from one that has grown: what is equal is not read again.
//   - Permission lost: an open file is read on. Permission regained: a file that was there from the start is read from its end,
//     any other from its beginning.
//
// Memory is bounded: a line of more than 4 MiB is skipped and counted.
package serverlog
