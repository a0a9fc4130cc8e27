-- A row that rejects late writes: the statement that writes also compares the token, so nothing can happen between the
-- check and the write. Run it with psql and the variables id, content and token.
--
-- It returns one row if the write was accepted, and none if a newer holder has written: then the writer has to stop.

INSERT INTO disks AS held (id, content, token)
VALUES (:'id', :'content', :token)
ON CONFLICT (id) DO UPDATE
    SET content = EXCLUDED.content, token = EXCLUDED.token
    WHERE held.token <= EXCLUDED.token
RETURNING token;
