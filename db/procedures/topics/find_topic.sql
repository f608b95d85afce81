-- Procedure:  find_topic
-- Purpose:    Finds a topic by its name.
-- Returns:
--   bigint                  the topic; NULL when there is none of this name
-- Tables:     topics (read)
CREATE OR REPLACE FUNCTION telesto.find_topic(
    name text  -- the name
)
RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
#variable_conflict use_column
DECLARE
    hash constant bytea := telesto.topic_hash(find_topic.name);
BEGIN
    RETURN (SELECT topic.topic_id FROM telesto.topics AS topic WHERE topic.name_hash = hash LIMIT 1);
END
$$;
