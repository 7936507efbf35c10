-- A commit's row in the log of changes is kilobytes of numbers. Compressing it costs each commit more than writing it does,
-- and it is read and written once more when it gets its place: it is kept as it is.
ALTER TABLE change_deltas ALTER runs SET STORAGE EXTERNAL;
ALTER TABLE changes ALTER runs SET STORAGE EXTERNAL;
