-- From version 6 to 7; what each column means: schema.sql. Which requests were under way was not kept.
ALTER TABLE window ADD COLUMN n_requests_unfinished INTEGER;

ALTER TABLE window ADD COLUMN unfinished BLOB;

ALTER TABLE window ADD COLUMN unfinished_before BLOB;
